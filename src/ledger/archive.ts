import { mkdir, open } from "node:fs/promises";
import { dirname } from "node:path";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { isRecord } from "../core/json.ts";
import type { StoredEvent } from "./event-store.ts";

/** Appends events to an archive, one JSON object a line, and waits for the disk. Only its owner may read a new file. */
export async function appendToArchive(path: string, events: readonly StoredEvent[]): Promise<void> {
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    const file = await open(path, "a+", 0o600);
    try {
      // A process that was killed here may have left half a line. The ledger still has that event.
      const { size } = await file.stat();
      const last = Buffer.alloc(1, "\n");
      if (size > 0) await file.read(last, 0, 1, size - 1);
      const start = last.toString() === "\n" ? "" : "\n";
      await file.writeFile(start + events.map((event) => `${JSON.stringify(event)}\n`).join(""));
      await file.sync();
    } finally {
      await file.close();
    }
  } catch (cause) {
    const message = `the archive ${path} cannot be written, so nothing more is removed: ${getErrorMessage(cause)}`;
    throw new QmError("ledger_failed", message, { cause });
  }
}

/** Reads the events of archives. Throws `invalid_arguments` for a line that is not an event, unless it was cut off. */
export async function* readArchives(paths: readonly string[]): AsyncGenerator<StoredEvent> {
  for (const path of paths) {
    const file = await open(path).catch((cause: unknown) => {
      throw new QmError("invalid_arguments", `${path} cannot be read: ${getErrorMessage(cause)}`, { cause });
    });
    let number = 0;
    for await (const line of file.readLines()) {
      number++;
      const event = parseLine(line);
      if (event !== undefined) yield event;
      else if (!isCutOff(line))
        throw new QmError("invalid_arguments", `line ${number} of ${path} is not an event of a ledger`, {
          hint: "Give a file that {qm events prune --archive} has written.",
        });
    }
  }
}

/** Half a line of an event. What it lacks is reported as missing, unless the ledger has it. */
const isCutOff = (line: string): boolean =>
  line === "" || line.startsWith(LINE_START.slice(0, line.length)) || line.startsWith(LINE_START);
const LINE_START = '{"id":';

function parseLine(line: string): StoredEvent | undefined {
  try {
    const event: unknown = JSON.parse(line);
    const isEvent = isRecord(event) && typeof event.session === "string" && typeof event.hash === "string";
    return isEvent && Number.isSafeInteger(event.seq) ? (event as unknown as StoredEvent) : undefined;
  } catch {
    return undefined;
  }
}

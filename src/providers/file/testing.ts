import { mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { QmError } from "../../core/errors.ts";
import type { JsonObject } from "../../core/json.ts";
import { getValidator } from "../../core/schema-validator.ts";
import { type FileProviderOptions, fileProvider } from "./file-provider.ts";

/** A provider on a real folder, for tests, with a folder beside it that nothing may reach. */
export interface TestRoot {
  readonly path: string;
  /** Holds `secret.txt` with the text `SECRET`. */
  readonly outside: string;
  /** Calls an action as the pipeline does: arguments checked, defaults filled in. */
  call(entry: string, args: JsonObject, signal?: AbortSignal): Promise<Record<string, unknown>>;
  /** The error that a call ends with. Throws when it does not fail, or with anything but a `QmError`. */
  refusal(entry: string, args: JsonObject): Promise<QmError>;
}

const made: string[] = [];

export async function testRoot(
  files: Record<string, string | Uint8Array> = {},
  options: Partial<FileProviderOptions> = {},
): Promise<TestRoot> {
  const base = await realpath(await mkdtemp(join(tmpdir(), "qm-file-")));
  made.push(base);
  const path = join(base, "root");
  const outside = join(base, "outside");
  for (const [name, content] of Object.entries({ "../outside/secret.txt": "SECRET", ...files })) {
    await mkdir(dirname(join(path, name)), { recursive: true });
    await writeFile(join(path, name), content);
  }
  await mkdir(path, { recursive: true });
  const actions = await fileProvider({ root: path, ...options }).list();

  async function call(entry: string, args: JsonObject, signal = new AbortController().signal) {
    const action = actions.find((candidate) => candidate.entry === entry);
    if (action === undefined) throw new Error(`no action ${entry}`);
    const filled = structuredClone(args);
    const mismatches = getValidator(action.inputSchema, "arguments")(filled, JSON.stringify(filled).length);
    if (mismatches.length > 0) throw new QmError("invalid_arguments", JSON.stringify(mismatches));
    const invoke = () => Promise.reject(new Error("file actions call no others"));
    const context = {
      caller: { actor: "test", session: "test" },
      callId: "call",
      signal,
      listVisible: async () => [],
      waitFor: () => {},
      heldSlots: new Set<string>(),
      afterEnd: () => {},
      sees: () => false,
      untimed: <T>(work: () => Promise<T>) => work(),
      invoke,
    };
    return (await action.run(filled, context)) as Record<string, unknown>;
  }

  async function refusal(entry: string, args: JsonObject) {
    const ended = await call(entry, args).then(
      (answer) => new Error(`it answered ${JSON.stringify(answer)}`),
      (thrown: unknown) => thrown,
    );
    if (ended instanceof QmError) return ended;
    throw ended;
  }

  return { path, outside, call, refusal };
}

export async function removeTestRoots(): Promise<void> {
  for (const base of made.splice(0)) await rm(base, { recursive: true, force: true });
}

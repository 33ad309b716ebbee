import { hash } from "node:crypto";
import type { NewNote } from "../../src/infospace/infospace-store.ts";
import type { NoteOrigin } from "../../src/infospace/note.ts";
import { openSqliteStore } from "../../src/store/open-store.ts";

/** How much of each there is: a group of notes, a portion of a collection, the portions of a collection. */
export const GROUP = 5;
export const PORTION = 40;
export const PORTIONS = 4;

/** What was answered, a line of JSON each: it must be there from then on. */
export type Acknowledged =
  | { readonly what: "group"; readonly callId: string; readonly first: number }
  | { readonly what: "replaced"; readonly id: number; readonly version: number }
  | { readonly what: "portion"; readonly id: number; readonly into?: number; readonly count: number }
  | { readonly what: "complete"; readonly id: number; readonly into?: number }
  | { readonly what: "saved" | "replacing"; readonly id: number };

/** Writes notes and collections to the store at a path until it is killed: `<path> <name>`. Does nothing when imported. */
const [path, name] = process.argv.slice(2);
if (path !== undefined && name !== undefined && process.argv[1]?.includes("writing-process")) await write(path, name);

async function write(path: string, name: string): Promise<void> {
  const now = () => new Date("2026-01-02T03:00:00.000Z");
  const { infospace: store } = await openSqliteStore(path, { now });
  const at = now().toISOString();
  const standing = { reach: "session", expiresAt: "2026-01-03T03:00:00.000Z" } as const;

  for (let round = 0; ; round++) {
    const callId = `${name} ${round}`;
    const origin: NoteOrigin = { action: "web__fetch", callId, actor: "main", session: name, at };
    const first = await store.addNotes(origin, group(callId), standing);
    say({ what: "group", callId, first });

    for (let version = 1; version <= 3; version++) {
      await store.replaceNote(first, version, version === 2 ? file() : note({ callId, version }), at);
      say({ what: "replaced", id: first, version: version + 1 });
    }

    const id = await filled(origin, PORTIONS);
    await store.save("collection", id, { reach: "tenant", name: callId, at });
    say({ what: "saved", id });

    const by = await filled({ ...origin, callId: `${callId} by` }, 2, id);
    await store.replaceCollection(id, by, at);
    say({ what: "replacing", id });
  }

  async function filled(origin: NoteOrigin, portions: number, replacing?: number): Promise<number> {
    const id = await store.addCollection(origin, {}, standing);
    const which = replacing === undefined ? { id } : { id, into: replacing };
    for (let portion = 0; portion < portions; portion++) {
      const from = portion * PORTION;
      await store.append(
        id,
        Array.from({ length: PORTION }, (_, index) => note({ n: from + index })),
        origin,
      );
      say({ what: "portion", ...which, count: from + PORTION });
    }
    await store.complete(id);
    say({ what: "complete", ...which });
    return id;
  }
}

function group(callId: string): readonly NewNote[] {
  return Array.from({ length: GROUP }, (_, n) => note({ callId, n, pad: "x".repeat(Math.random() * 9_000) }));
}

function note(content: object): NewNote {
  const text = JSON.stringify(content);
  return { format: "json", text, bytes: Buffer.byteLength(text), hash: hash("sha256", text) };
}

function file(): NewNote {
  const bytes = Buffer.alloc(Math.ceil(Math.random() * 50_000), "bytes");
  const text = JSON.stringify({ media_type: "application/octet-stream", size: bytes.length });
  return { format: "file", text, file: bytes, bytes: bytes.length, hash: hash("sha256", bytes) };
}

function say(line: Acknowledged): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

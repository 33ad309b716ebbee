import { type FileBytes, type GetContent, hashBytes } from "../core/file-digest.ts";
import { bindList, type Sql, splitIntoBatches, sql } from "./sql.ts";

/** Stores bytes once for each digest. Returns the digests. */
export async function addContents(tx: Sql, files: FileBytes): Promise<readonly string[]> {
  const contents = new Map(Array.from(files.values(), (bytes) => [hashBytes(bytes), bytes]));
  for (const [digest, bytes] of contents)
    await tx.all(sql`
      insert into file_contents (digest, content) values (${digest}, ${bytes}) on conflict (digest) do nothing`);
  return [...contents.keys()];
}

/** Keeps the bytes with these digests while `owner` refers to them. Replaces what it referred to before. */
export async function putContentUse(tx: Sql, owner: string, digests: Iterable<string>): Promise<void> {
  await removeContentUse(tx, [owner]);
  for (const digest of new Set(digests))
    await tx.all(sql`insert into content_use (owner, digest) values (${owner}, ${digest})`);
}

export async function removeContentUse(tx: Sql, owners: readonly string[]): Promise<void> {
  for (const batch of splitIntoBatches(owners))
    await tx.all(sql`delete from content_use where owner in (${bindList(batch)})`);
}

/** Removes the bytes that nothing refers to. */
export async function pruneContents(tx: Sql): Promise<void> {
  await tx.all(sql`
    delete from file_contents
    where not exists (select 1 from content_use where content_use.digest = file_contents.digest)`);
}

/** Reads stored bytes, but only if they still have their digest. */
export const createGetContent =
  (db: Sql): GetContent =>
  async (digest) => {
    const [row] = await db.all(sql`select content from file_contents where digest = ${digest}`);
    const bytes = row?.content;
    return bytes instanceof Uint8Array && hashBytes(bytes) === digest ? bytes : undefined;
  };

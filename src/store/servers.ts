import { toHexDigest } from "../core/file-digest.ts";
import type { ProblemStore, ServerProblem } from "../mcp/hub/server-problems.ts";
import type { ProcessStore } from "../mcp/hub/server-processes.ts";
import type { DefinitionPin, ManifestRecord, ManifestStore, ServerManifest } from "../mcp/manifests/manifest-store.ts";
import type { SkillFileEntry } from "../mcp/manifests/offered-skill.ts";
import { addContents, createGetContent, putContentUse, removeContentUse } from "./file-contents.ts";
import { bindList, createWriteTag, joinQueries, type Sql, type SqlRow, splitIntoBatches, sql } from "./sql.ts";

/** Started processes in SQL: one row for each that is not known to have ended. */
export const createSqlProcessStore = (db: Sql): ProcessStore => ({
  async add({ server, pid, startedAt, ownerPid, host }) {
    await db.all(sql`
        insert into processes (host, pid, started_at, server, owner_pid)
        values (${host}, ${pid}, ${startedAt}, ${server}, ${ownerPid})
        on conflict (host, pid, started_at) do update set server = excluded.server, owner_pid = excluded.owner_pid`);
  },
  async remove({ host, pid, startedAt }) {
    await db.all(sql`delete from processes where host = ${host} and pid = ${pid} and started_at = ${startedAt}`);
  },
  async all() {
    const rows = await db.all(sql`
        select server, pid, started_at, owner_pid, host from processes order by host, pid, started_at`);
    return rows.map((row) => ({
      server: String(row.server),
      pid: Number(row.pid),
      startedAt: String(row.started_at),
      ownerPid: Number(row.owner_pid),
      host: String(row.host),
    }));
  },
});

/** Problems of servers in SQL: one row for each server that failed when it was last tried. */
export const createSqlProblemStore = (db: Sql): ProblemStore => ({
  async set(server, { fingerprint, state, message }) {
    await db.all(sql`
        insert into server_problems (server, fingerprint, state, message)
        values (${server}, ${fingerprint}, ${state}, ${message})
        on conflict (server) do update set fingerprint = excluded.fingerprint, state = excluded.state,
          message = excluded.message`);
  },
  async clear(server) {
    await db.all(sql`delete from server_problems where server = ${server}`);
  },
  async all() {
    const rows = await db.all(sql`select server, fingerprint, state, message from server_problems`);
    return new Map(
      rows.map(({ server, fingerprint, state, message }) => [
        String(server),
        { fingerprint: String(fingerprint), state: state as ServerProblem["state"], message: String(message) },
      ]),
    );
  },
});

/** Manifests and pins in SQL: one row per server, and one per tool definition seen. Texts from servers are JSON. */
export const createSqlManifestStore = (db: Sql): ManifestStore => ({
  all: () => db.transaction(readAll),
  read: (server) => db.transaction((tx) => readRecord(tx, server)),
  async revisions() {
    const rows = await db.all(sql`select server, revision from manifests`);
    return new Map(rows.map((row) => [String(row.server), Number(row.revision)]));
  },
  change: (server, decide) =>
    db.transaction(async (tx) => {
      const before = await readRecord(tx, server);
      const change = decide(before);
      if (change === undefined) return before;
      const manifest = change.manifest ?? before?.manifest;
      if (manifest === undefined)
        throw new TypeError(`the first record of ${server} cannot be written without a manifest`);
      const revision = await nextRevision(tx);
      if (change.manifest === undefined) {
        await tx.all(sql`update manifests set revision = ${revision} where server = ${server}`);
      } else {
        await putManifest(tx, server, revision, manifest);
      }
      await dropPins(tx, server, change.drop);
      await putPins(tx, server, change.put);
      const gone = new Set([...change.drop, ...change.put.map(({ hash }) => hash)]);
      const stay = (before?.pins ?? []).filter(({ hash }) => !gone.has(hash));
      const pins = [...stay, ...change.put];
      if ([...(before?.pins ?? []), ...pins].some(({ definition }) => definition.skill !== undefined))
        await putContentUse(tx, toOwner(server), listSkillDigests(pins));
      return { revision, manifest, pins };
    }),
  forget: (server) =>
    db.transaction(async (tx) => {
      await tx.all(sql`delete from pins where server = ${server}`);
      await removeContentUse(tx, [toOwner(server)]);
      return createWriteTag(tx)`delete from manifests where server = ${server} returning server`;
    }),
  getContent: createGetContent(db),
  addContents: async (files) => void (await db.transaction((tx) => addContents(tx, files))),
});

const toOwner = (server: string): string => `server ${server}`;

/** The digests of the files of accepted skills, to show what changed in them. */
const listSkillDigests = (pins: readonly DefinitionPin[]): readonly string[] =>
  pins
    .filter(({ state }) => state === "accepted")
    .flatMap(({ definition: { skill } }) => (Array.isArray(skill?.resources) ? skill.resources : []))
    .map(({ digest }: SkillFileEntry) => toHexDigest(digest));

async function readAll(tx: Sql): Promise<ReadonlyMap<string, ManifestRecord>> {
  const pins = new Map<string, SqlRow[]>();
  for (const row of await tx.all(sql`
    select server, hash, state, seen_at, grounds, definition from pins order by seen_at, hash`)) {
    const same = pins.get(String(row.server));
    if (same === undefined) pins.set(String(row.server), [row]);
    else same.push(row);
  }
  const rows = await tx.all(sql`select server, revision, fingerprint, learned_at, offer from manifests`);
  return new Map(rows.map((row) => [String(row.server), toServerRecord(row, pins.get(String(row.server)) ?? [])]));
}

async function readRecord(tx: Sql, server: string): Promise<ManifestRecord | undefined> {
  const [row] = await tx.all(sql`
    select revision, fingerprint, learned_at, offer from manifests where server = ${server}`);
  if (row === undefined) return undefined;
  const pins = await tx.all(sql`
    select hash, state, seen_at, grounds, definition from pins where server = ${server} order by seen_at, hash`);
  return toServerRecord(row, pins);
}

/** One sequence for all servers, so that a server that was removed and added again does not repeat a revision. */
async function nextRevision(tx: Sql): Promise<number> {
  const [row] = await tx.all(sql`
    insert into manifest_revisions (name, last) values ('manifests', 1)
    on conflict (name) do update set last = manifest_revisions.last + 1 returning last`);
  return Number(row?.last);
}

async function putManifest(tx: Sql, server: string, revision: number, manifest: ServerManifest): Promise<void> {
  const { fingerprint, learnedAt, offer } = manifest;
  await tx.all(sql`
    insert into manifests (server, revision, fingerprint, learned_at, offer)
    values (${server}, ${revision}, ${fingerprint}, ${learnedAt.toISOString()}, ${JSON.stringify(offer)})
    on conflict (server) do update set revision = excluded.revision, fingerprint = excluded.fingerprint,
      learned_at = excluded.learned_at, offer = excluded.offer`);
}

async function putPins(tx: Sql, server: string, pins: readonly DefinitionPin[]): Promise<void> {
  for (const batch of splitIntoBatches(pins)) {
    const rows = batch.map(({ hash, state, seenAt, definition, reasons, marks, by }) => {
      const grounds = JSON.stringify({ reasons, marks, by });
      return sql`(${server}, ${hash}, ${state}, ${seenAt.toISOString()}, ${grounds}, ${JSON.stringify(definition)})`;
    });
    await tx.all(sql`
      insert into pins (server, hash, state, seen_at, grounds, definition) values ${joinQueries(rows, ", ")}
      on conflict (server, hash) do update set state = excluded.state, seen_at = excluded.seen_at,
        grounds = excluded.grounds, definition = excluded.definition`);
  }
}

async function dropPins(tx: Sql, server: string, hashes: readonly string[]): Promise<void> {
  for (const batch of splitIntoBatches(hashes)) {
    await tx.all(sql`delete from pins where server = ${server} and hash in (${bindList(batch)})`);
  }
}

const toServerRecord = (row: SqlRow, pins: readonly SqlRow[]): ManifestRecord => ({
  revision: Number(row.revision),
  manifest: {
    fingerprint: String(row.fingerprint),
    learnedAt: new Date(String(row.learned_at)),
    offer: JSON.parse(String(row.offer)) as ServerManifest["offer"],
  },
  pins: pins.map(toPin),
});

function toPin(row: SqlRow): DefinitionPin {
  const grounds = JSON.parse(String(row.grounds)) as Pick<DefinitionPin, "reasons" | "marks" | "by">;
  return {
    hash: String(row.hash),
    state: row.state as DefinitionPin["state"],
    seenAt: new Date(String(row.seen_at)),
    definition: JSON.parse(String(row.definition)) as DefinitionPin["definition"],
    ...grounds,
  };
}

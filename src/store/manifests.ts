import type { Manifest, ManifestStore, Pin, PinState, ServerRecord } from "../mcp/manifest/manifest-store.ts";
import type { Offer, OfferedTool } from "../mcp/manifest/offer.ts";
import { join, type Row, type Sql, sql } from "./sql.ts";

// Engines bound the values of one statement.
const PORTION = 100;

/** Manifests and pins in SQL: one row a server, one a definition that was seen. Texts from servers are kept as JSON. */
export function manifestStore(db: Sql): ManifestStore {
  return {
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
        if (manifest === undefined) throw new TypeError(`a record of ${server} cannot begin without a manifest`);
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
        return { revision, manifest, pins: [...stay, ...change.put] };
      }),
    forget: (server) =>
      db.transaction(async (tx) => {
        await tx.all(sql`delete from pins where server = ${server}`);
        const gone = await tx.all(sql`delete from manifests where server = ${server} returning server`);
        return gone.length > 0;
      }),
  };
}

async function readAll(tx: Sql): Promise<ReadonlyMap<string, ServerRecord>> {
  const pins = new Map<string, Row[]>();
  for (const row of await tx.all(sql`
    select server, hash, state, seen_at, grounds, definition from pins order by seen_at, hash`)) {
    const same = pins.get(String(row.server));
    if (same === undefined) pins.set(String(row.server), [row]);
    else same.push(row);
  }
  const rows = await tx.all(sql`select server, revision, fingerprint, learned_at, offer from manifests`);
  return new Map(rows.map((row) => [String(row.server), recordOf(row, pins.get(String(row.server)) ?? [])]));
}

async function readRecord(tx: Sql, server: string): Promise<ServerRecord | undefined> {
  const [row] = await tx.all(sql`
    select revision, fingerprint, learned_at, offer from manifests where server = ${server}`);
  if (row === undefined) return undefined;
  const pins = await tx.all(sql`
    select hash, state, seen_at, grounds, definition from pins where server = ${server} order by seen_at, hash`);
  return recordOf(row, pins);
}

/** Counted over all servers: a server that was forgotten and comes back must not repeat one. */
async function nextRevision(tx: Sql): Promise<number> {
  const [row] = await tx.all(sql`
    insert into manifest_revisions (name, last) values ('manifests', 1)
    on conflict (name) do update set last = manifest_revisions.last + 1 returning last`);
  return Number(row?.last);
}

async function putManifest(tx: Sql, server: string, revision: number, manifest: Manifest): Promise<void> {
  const { fingerprint, learnedAt, offer } = manifest;
  await tx.all(sql`
    insert into manifests (server, revision, fingerprint, learned_at, offer)
    values (${server}, ${revision}, ${fingerprint}, ${learnedAt.toISOString()}, ${JSON.stringify(offer)})
    on conflict (server) do update set revision = excluded.revision, fingerprint = excluded.fingerprint,
      learned_at = excluded.learned_at, offer = excluded.offer`);
}

async function putPins(tx: Sql, server: string, pins: readonly Pin[]): Promise<void> {
  for (let from = 0; from < pins.length; from += PORTION) {
    const rows = pins.slice(from, from + PORTION).map(({ hash, state, seenAt, definition, reasons, marks, by }) => {
      const grounds = JSON.stringify({ reasons, marks, by });
      return sql`(${server}, ${hash}, ${state}, ${seenAt.toISOString()}, ${grounds}, ${JSON.stringify(definition)})`;
    });
    await tx.all(sql`
      insert into pins (server, hash, state, seen_at, grounds, definition) values ${join(rows, ", ")}
      on conflict (server, hash) do update set state = excluded.state, seen_at = excluded.seen_at,
        grounds = excluded.grounds, definition = excluded.definition`);
  }
}

async function dropPins(tx: Sql, server: string, hashes: readonly string[]): Promise<void> {
  for (let from = 0; from < hashes.length; from += PORTION) {
    const list = hashes.slice(from, from + PORTION).map((hash) => sql`${hash}`);
    await tx.all(sql`delete from pins where server = ${server} and hash in (${join(list, ", ")})`);
  }
}

function recordOf(row: Row, pins: readonly Row[]): ServerRecord {
  return {
    revision: Number(row.revision),
    manifest: {
      fingerprint: String(row.fingerprint),
      learnedAt: new Date(String(row.learned_at)),
      offer: JSON.parse(String(row.offer)) as Offer,
    },
    pins: pins.map(pinOf),
  };
}

function pinOf(row: Row): Pin {
  const grounds = JSON.parse(String(row.grounds)) as Pick<Pin, "reasons" | "marks" | "by">;
  return {
    hash: String(row.hash),
    state: row.state as PinState,
    seenAt: new Date(String(row.seen_at)),
    definition: JSON.parse(String(row.definition)) as OfferedTool,
    ...grounds,
  };
}

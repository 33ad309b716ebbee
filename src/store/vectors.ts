import { yieldToEventLoop } from "../core/async.ts";
import type { LockStore } from "../search/semantic/vector-build.ts";
import { USE_RECORD_INTERVAL_MS, type VectorStore } from "../search/semantic/vector-set.ts";
import { bindList, createWriteTag, joinQueries, type Sql, splitIntoBatches, sql } from "./sql.ts";

// A statement with many vectors would keep others waiting.
const VECTOR_BATCH = 125;

/** Vectors in SQL: one table of rows by model and hash of the text, and one of complete sets. */
export const createSqlVectorStore = (db: Sql, now: () => Date): VectorStore => ({
  async lastUse({ catalog, model }) {
    const [row] = await db.all(sql`select used_at from vector_sets where catalog = ${catalog} and model = ${model}`);
    return row === undefined ? undefined : new Date(String(row.used_at));
  },
  async complete({ catalog, model }) {
    await db.all(sql`
        insert into vector_sets (catalog, model, used_at) values (${catalog}, ${model}, ${now().toISOString()})
        on conflict (catalog, model) do update set used_at = excluded.used_at`);
  },
  async known(model, hashes) {
    const found = new Set<string>();
    for (const batch of splitIntoBatches([...hashes])) {
      await yieldToEventLoop();
      const rows = await db.all(sql`select hash from vectors where model = ${model} and hash in (${bindList(batch)})`);
      for (const row of rows) found.add(String(row.hash));
    }
    return found;
  },
  async touch(model, hashes) {
    const at = now();
    const dayAgo = new Date(at.getTime() - USE_RECORD_INTERVAL_MS);
    for (const batch of splitIntoBatches([...hashes])) {
      await yieldToEventLoop();
      await db.all(sql`
          update vectors set used_at = ${at.toISOString()}
          where model = ${model} and hash in (${bindList(batch)}) and used_at < ${dayAgo.toISOString()}`);
    }
  },
  async write(model, rows) {
    const at = now().toISOString();
    const values = [...rows].map(([hash, vector]) => sql`(${model}, ${hash}, ${at}, ${toBytes(vector)})`);
    for (const batch of splitIntoBatches(values, VECTOR_BATCH)) {
      await db.all(sql`
          insert into vectors (model, hash, used_at, vector) values ${joinQueries(batch, ", ")}
          on conflict (model, hash) do update set used_at = excluded.used_at, vector = excluded.vector`);
    }
  },
  async read(model, hashes, take) {
    for (const batch of splitIntoBatches([...hashes])) {
      await yieldToEventLoop();
      const rows = await db.all(sql`
        select hash, vector from vectors where model = ${model} and hash in (${bindList(batch)})`);
      for (const { hash, vector } of rows) if (vector instanceof Uint8Array) take(String(hash), toVector(vector));
    }
  },
  async prune(before) {
    const limit = before.toISOString();
    // The sets first: a set without its rows must not remain.
    await db.all(sql`delete from vector_sets where used_at < ${limit}`);
    await db.all(sql`delete from vectors where used_at < ${limit}`);
  },
  clear: () =>
    db.transaction(async (tx) => {
      const [row] = await tx.all(sql`select count(*) as counted from vectors`);
      await tx.all(sql`delete from vector_sets`);
      await tx.all(sql`delete from vectors`);
      return { rows: Number(row?.counted) };
    }),
});

/** Little-endian on every machine, because a store can be moved. */
function toBytes(vector: Float32Array): Uint8Array {
  const bytes = new DataView(new ArrayBuffer(vector.length * 4));
  vector.forEach((number, at) => {
    bytes.setFloat32(at * 4, number, true);
  });
  return new Uint8Array(bytes.buffer);
}

function toVector(bytes: Uint8Array): Float32Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const vector = new Float32Array(Math.floor(bytes.byteLength / 4));
  for (let at = 0; at < vector.length; at++) vector[at] = view.getFloat32(at * 4, true);
  return vector;
}

/** Locks in SQL: one row per held lock. */
export function createSqlLockStore(db: Sql): LockStore {
  const write = createWriteTag(db);
  return {
    async take(name, { id, pid, host, leaseUntil }, isOver) {
      const until = leaseUntil.toISOString();
      const [row] = await db.all(sql`select holder, pid, host, lease_until from locks where name = ${name}`);
      if (row === undefined) {
        return write`
          insert into locks (name, holder, pid, host, lease_until) values (${name}, ${id}, ${pid}, ${host}, ${until})
          on conflict (name) do nothing returning holder`;
      }
      const holder = String(row.holder);
      const lease = new Date(String(row.lease_until));
      if (!isOver({ id: holder, pid: Number(row.pid), host: String(row.host), leaseUntil: lease })) return false;
      // Only if unchanged: another process may have taken it, or the holder may have renewed it.
      return write`
        update locks set holder = ${id}, pid = ${pid}, host = ${host}, lease_until = ${until}
        where name = ${name} and holder = ${holder} and lease_until = ${lease.toISOString()} returning holder`;
    },
    renew: async (name, { id, leaseUntil }) => write`
      update locks set lease_until = ${leaseUntil.toISOString()} where name = ${name} and holder = ${id}
      returning holder`,
    async release(name, id) {
      await db.all(sql`delete from locks where name = ${name} and holder = ${id}`);
    },
  };
}

import type { NewEvent } from "../core/events.ts";
import { canonicalJson, getOrCreate, getOwn, isRecord } from "../core/json.ts";
import type { ChainHead, StoredEvent } from "../ledger/event-store.ts";
import { CHAIN_START, hashLineText } from "../ledger/hash-chain.ts";
import { createWriteTag, type Sql, type SqlValue, splitIntoBatches, sql, toStorableText } from "./sql.ts";

export type ChainEnd = Pick<ChainHead, "seq" | "hash">;
type ChainEnds = ReadonlyMap<string, ChainEnd>;

/**
 * Appends events within the caller's transaction, and returns where their chains end then. `known`: where they may end
 * now. A wrong end costs a statement, a right one saves one.
 */
export async function appendEvents(
  tx: Sql,
  events: readonly NewEvent[],
  known: ChainEnds = new Map(),
): Promise<ChainEnds> {
  const lines = events.map(toNewLine);
  const chains = new Map<string, NewLine[]>();
  for (const line of lines) getOrCreate(chains, line.session, () => []).push(line);
  const ends = new Map<string, ChainEnd>();
  // In one order everywhere, so that two writers cannot wait for each other.
  for (const session of [...chains.keys()].sort()) {
    const own = chains.get(session) ?? [];
    ends.set(session, await extendChain(tx, session, own, known.get(session)));
  }
  for (const rows of splitIntoBatches(lines, ROWS_PER_INSERT))
    await tx.all({ parts: getInsertParts(rows.length), values: listValues(rows) });
  return ends;
}

/** A line with its place in the chain, once it has one. `data` is the text that is stored and hashed. */
interface NewLine extends Omit<StoredEvent, "id" | "seq" | "prev" | "hash" | "data"> {
  readonly data: string;
  seq: number;
  prev: string;
  hash: string;
}

const toNewLine = ({ session, type, at, actor, tenant, turn, user, person, data }: NewEvent): NewLine => ({
  session: toStorableText(session),
  type,
  at: formatTime(at),
  actor: toStorableText(actor),
  tenant: toStorableText(tenant),
  turn: toStorableText(turn),
  user: toStorableText(user),
  person: toStorableText(person),
  callId: readOwnText(data, "callId"),
  action: readOwnText(data, "action"),
  data: canonicalJson(data),
  seq: 0,
  prev: CHAIN_START,
  hash: CHAIN_START,
});

let lastTime = { ms: 0, text: new Date(0).toISOString() };

/** Remembers the last time: the events of a batch share a few. */
function formatTime(at: Date): string {
  const ms = at.getTime();
  if (ms !== lastTime.ms) lastTime = { ms, text: at.toISOString() };
  return lastTime.text;
}

/** Gives the lines their places in the chain and moves its end, which makes concurrent writers of the session wait. */
async function extendChain(
  tx: Sql,
  session: string,
  lines: readonly NewLine[],
  known: ChainEnd | undefined,
): Promise<ChainEnd> {
  if (known !== undefined) {
    const { seq, hash } = placeLines(lines, known);
    const isMoved = await createWriteTag(tx)`
      update chains set seq = ${seq}, hash = ${hash}
      where session = ${session} and seq = ${known.seq} and hash = ${known.hash} returning seq`;
    if (isMoved) return { seq, hash };
  }
  const { seq, hash } = placeLines(lines, await reserve(tx, session, lines.length));
  await tx.all(sql`update chains set hash = ${hash} where session = ${session}`);
  return { seq, hash };
}

function placeLines(lines: readonly NewLine[], { seq, hash }: ChainEnd): ChainEnd {
  let end = hash;
  lines.forEach((line, at) => {
    line.seq = seq + at + 1;
    line.prev = end;
    end = hashLineText(line, line.data);
    line.hash = end;
  });
  return { seq: seq + lines.length, hash: end };
}

/** Returns where the chain ended. */
async function reserve(tx: Sql, session: string, count: number): Promise<ChainEnd> {
  const [row] = await tx.all(sql`
    insert into chains (session, seq, hash) values (${session}, ${count}, ${CHAIN_START})
    on conflict (session) do update set seq = chains.seq + excluded.seq
    returning seq, hash`);
  if (row === undefined) throw new TypeError(`no place was reserved for ${session}`);
  return { seq: Number(row.seq) - count, hash: String(row.hash) };
}

/** More rows in one statement do not make it faster, and every count of rows is a statement of its own. */
const ROWS_PER_INSERT = 32;
const COLUMNS = "session, seq, type, at, actor, tenant, turn, user_id, person, call_id, action, data, prev, hash";
const insertParts = new Map<number, readonly string[]>();

/** Frozen, so that the driver finds the statement again. */
const getInsertParts = (rows: number): readonly string[] =>
  getOrCreate(insertParts, rows, () => {
    const row = COLUMNS.split(", ").map(() => ", ");
    const parts = Array.from({ length: rows }, () => ["), (", ...row.slice(1)]).flat();
    return Object.freeze([`insert into events (${COLUMNS}) values (`, ...parts.slice(1), ")"]);
  });

function listValues(lines: readonly NewLine[]): readonly SqlValue[] {
  const values: SqlValue[] = [];
  for (const line of lines) {
    const { session, seq, type, at, actor, tenant, turn, user, person, callId, action, data, prev, hash } = line;
    values.push(session, seq, type, at, actor, tenant, turn, user, person, callId, action, data, prev, hash);
  }
  return values;
}

export function readOwnText(data: unknown, key: string): string | null {
  const value = isRecord(data) ? getOwn(data, key) : undefined;
  return typeof value === "string" ? toStorableText(value) : null;
}

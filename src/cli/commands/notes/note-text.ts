import { formatCount, toOneLine } from "../../../core/display-text.ts";
import { QmError } from "../../../core/errors.ts";
import type { NoteEntry } from "../../../infospace/note-list.ts";
import type { NotesUsage } from "../../../infospace/notes.ts";
import type { Context } from "../../context.ts";
import { InterruptedError } from "../../terminal.ts";

/** For example `json, 12 kB` or `120 notes, 3.4 MB`. */
export function formatTypeAndSize(resource: NoteEntry): string {
  const size = formatByteCount(resource.bytes);
  if (resource.kind === "note") return `${resource.format}, ${size}`;
  return `${formatCount(resource.count, "note")}, ${size}${resource.complete ? "" : ", not complete"}`;
}

export function formatNoteOrigin({ actor, session, tenant, user }: NoteEntry["origin"]): string {
  const of = user === undefined ? "" : `, of ${user}`;
  const at = tenant === undefined ? "" : ` at ${tenant}`;
  return toOneLine(`actor ${actor} in session ${session}${of}${at}`);
}

export function formatNoteReach({ reach, origin: { actor, session, tenant, user } }: NoteEntry): string {
  const of = user === undefined ? "" : ` of ${user}`;
  const at = tenant === undefined ? "" : ` at ${tenant}`;
  if (reach === "tenant") return tenant === undefined ? "all callers without a tenant" : `tenant ${tenant}`;
  return `${reach === "session" ? `session ${session}` : `actor ${actor}`}${of}${at}`;
}

export function formatNotesUsage({ tenant, notes, bytes, rows, limit }: NotesUsage): string {
  const who = tenant === undefined ? "Callers without a tenant use" : `Tenant ${toOneLine(tenant)} uses`;
  const size = `${formatByteCount(bytes)} of ${formatByteCount(limit.bytes)}`;
  return `${who} ${notes} of ${limit.notes} notes and collections, ${size}, ${rows} of ${limit.rows} rows.`;
}

const UNITS = ["bytes", "kB", "MB", "GB", "TB"];

/** Decimal units, with one decimal place below ten. */
export function formatByteCount(bytes: number): string {
  let [size, unit] = [bytes, 0];
  while (size >= 1_000 && unit < UNITS.length - 1) {
    size /= 1_000;
    unit++;
  }
  if (unit === 0) return formatCount(bytes, "byte");
  return `${size < 10 ? size.toFixed(1) : Math.round(size)} ${UNITS[unit]}`;
}

/** Runs `work`, and throws an `InterruptedError` if Ctrl-C ended it. */
export async function withInterrupt<T>({ io: { signal } }: Context, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (thrown) {
    throw signal.aborted && !(thrown instanceof QmError) ? new InterruptedError() : thrown;
  }
}

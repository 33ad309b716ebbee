import { QmError } from "../../../core/errors.ts";
import type { Kept, NotesQuery } from "../../../infospace/listing.ts";
import type { NotesUsage } from "../../../infospace/notes.ts";
import { Interrupted } from "../../ask.ts";
import type { Context } from "../../context.ts";
import { counted, oneLine } from "../../text.ts";

/** Whose, as the options of every command say. */
export function whoseOf({ globals: { session, actor, tenant, user } }: Context): NotesQuery {
  return { session, actor, tenant, user };
}

/** `json, 12 kB`; `120 notes, 3.4 MB`. */
export function whatText(resource: Kept): string {
  const size = bytesText(resource.bytes);
  if (resource.kind === "note") return `${resource.format}, ${size}`;
  return `${counted(resource.count, "note")}, ${size}${resource.complete ? "" : ", not complete"}`;
}

/** Whose it was made. */
export function originText({ actor, session, tenant, user }: Kept["origin"]): string {
  const of = user === undefined ? "" : `, of ${user}`;
  const at = tenant === undefined ? "" : ` at ${tenant}`;
  return oneLine(`actor ${actor} in session ${session}${of}${at}`);
}

/** Whose it is: of whom, and whom it reaches. */
export function reachText({ reach, origin: { actor, session, tenant, user } }: Kept): string {
  const of = user === undefined ? "" : ` of ${user}`;
  const at = tenant === undefined ? "" : ` at ${tenant}`;
  switch (reach) {
    case "session":
      return `session ${session}${of}${at}`;
    case "actor":
      return `actor ${actor}${of}${at}`;
    case "tenant":
      return tenant === undefined ? "everybody without a tenant" : `tenant ${tenant}`;
  }
}

/** How much a tenant keeps, and may keep. */
export function usageText({ tenant, notes, bytes, rows, limit }: NotesUsage): string {
  const who = tenant === undefined ? "Callers without a tenant keep" : `Tenant ${oneLine(tenant)} keeps`;
  const size = `${bytesText(bytes)} of ${bytesText(limit.bytes)}`;
  return `${who} ${notes} of ${limit.notes} notes and collections, ${size}, ${rows} of ${limit.rows} rows.`;
}

const UNITS = ["bytes", "kB", "MB", "GB", "TB"];

/** In thousands, with a decimal where that says something. */
export function bytesText(bytes: number): string {
  let [size, unit] = [bytes, 0];
  while (size >= 1_000 && unit < UNITS.length - 1) {
    size /= 1_000;
    unit++;
  }
  if (unit === 0) return counted(bytes, "byte");
  return `${size < 10 ? size.toFixed(1) : Math.round(size)} ${UNITS[unit]}`;
}

/** Does something that Ctrl-C may end, and says so as the program does. */
export async function interruptible<T>({ io: { signal } }: Context, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (thrown) {
    if (signal.aborted && !(thrown instanceof QmError)) throw new Interrupted();
    throw thrown;
  }
}

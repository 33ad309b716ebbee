import type { OwnerScope } from "../../src/infospace/infospace-store.ts";
import type { Collection, Note, NoteOrigin } from "../../src/infospace/note.ts";
import {
  findExcess,
  NOTE_OVERHEAD,
  type Quota,
  type QuotaExcess,
  type QuotaUsage,
  quotaScopes,
} from "../../src/infospace/quota.ts";

export interface KeptNote {
  note: Note;
  readonly past: Note[];
}

export interface KeptCollection {
  facts: Omit<Collection, "count" | "bytes">;
  /** The ids of each version. Removed notes stay in the list. */
  readonly versions: number[][];
}

/** Counts the usage of each session, user and tenant. */
export function computeUsage({
  notes,
  collections,
}: {
  readonly notes: ReadonlyMap<number, KeptNote>;
  readonly collections: ReadonlyMap<number, KeptCollection>;
}): readonly QuotaUsage[] {
  const all = new Map<string, QuotaUsage>();
  function add({ tenant = "", user = "", session }: NoteOrigin, { bytes = 0, rows = 0 }): void {
    for (const scope of quotaScopes) {
      const who = {
        ...(tenant === "" ? {} : { tenant }),
        ...(scope === "tenant" || user === "" ? {} : { user }),
        ...(scope === "session" ? { session } : {}),
      };
      const key = JSON.stringify([scope, who]);
      const sum = all.get(key) ?? { scope, ...who, notes: 0, bytes: 0, rows: 0 };
      all.set(key, { ...sum, notes: sum.notes + 1, bytes: sum.bytes + bytes, rows: sum.rows + rows });
    }
  }
  for (const { note, past } of notes.values()) {
    const contents = [note, ...past].reduce((sum, { bytes }) => sum + bytes, 0);
    add(note.origin, { bytes: contents + labelBytes(note) });
  }
  for (const { facts, versions } of collections.values()) {
    add(facts.origin, { bytes: labelBytes(facts), rows: versions.flatMap(findRunStarts).length });
  }
  return [...all.values()];
}

/** The first limit that a change exceeds. */
export function findPassed(
  quota: Quota,
  before: readonly QuotaUsage[],
  after: readonly QuotaUsage[],
): QuotaExcess | undefined {
  for (const now of after) {
    const was = before.find((each) => each.scope === now.scope && isSameUser(each, now)) ?? NOTHING;
    const added = { notes: now.notes - was.notes, bytes: now.bytes - was.bytes, rows: now.rows - was.rows };
    const excess = findExcess(quota, now.scope, now, added);
    if (excess !== undefined) return excess;
  }
  return undefined;
}

const NOTHING = { notes: 0, bytes: 0, rows: 0 };

function labelBytes({ properties }: Pick<Note, "properties">): number {
  const text = Object.keys(properties).length === 0 ? "" : JSON.stringify(properties);
  return NOTE_OVERHEAD + [...text].length;
}

/** The first ids of runs of consecutive ids. */
function findRunStarts(ids: readonly number[]): readonly number[] {
  return ids.filter((id, index) => index === 0 || ids[index - 1] !== id - 1);
}

type User = Pick<QuotaUsage, "tenant" | "user" | "session">;

function isSameUser(one: User, other: User): boolean {
  return (["tenant", "user", "session"] as const).every((key) => one[key] === other[key]);
}

export function isOwnedBy({ scope, tenant = "", user = "", session }: QuotaUsage, whose: OwnerScope): boolean {
  if (tenant !== (whose.tenant ?? "")) return false;
  if (scope === "tenant") return true;
  return user === (whose.user ?? "") && (scope === "user" || session === whose.session);
}

import { QmError } from "../core/errors.ts";
import { omitUndefined } from "../core/json.ts";

export const quotaScopes = ["session", "user", "tenant"] as const;
export type QuotaScope = (typeof quotaScopes)[number];

export interface QuotaAmount {
  /** Notes and collections together. */
  readonly notes: number;
  /** Contents of all versions, properties, and `NOTE_OVERHEAD` for each note and collection. */
  readonly bytes: number;
  /** Membership rows of all collection versions. Notes that were written together share a row. */
  readonly rows: number;
}

export type Quota = Readonly<Record<QuotaScope, QuotaAmount>>;

export interface QuotaUsage extends QuotaAmount {
  readonly scope: QuotaScope;
  readonly tenant?: string;
  readonly user?: string;
  readonly session?: string;
}

/** Bytes that a note or collection takes in the store beside its content. */
export const NOTE_OVERHEAD = 256;
const MIB = 1024 * 1024;

export const DEFAULT_QUOTA: Quota = {
  session: { notes: 500_000, bytes: 256 * MIB, rows: 500_000 },
  user: { notes: 2_000_000, bytes: 1024 * MIB, rows: 2_000_000 },
  tenant: { notes: 4_000_000, bytes: 2048 * MIB, rows: 4_000_000 },
};

export type QuotaSettings = { readonly [Scope in QuotaScope]?: Partial<QuotaAmount> | undefined };

export function createQuota(settings: QuotaSettings = {}): Quota {
  const merge = (scope: QuotaScope): QuotaAmount => ({
    ...DEFAULT_QUOTA[scope],
    ...(omitUndefined(settings[scope] ?? {}) as Partial<QuotaAmount>),
  });
  return { session: merge("session"), user: merge("user"), tenant: merge("tenant") };
}

export type QuotaExcess = NonNullable<ReturnType<typeof findExcess>>;

/** The first limit that an addition exceeds. */
export function findExcess(quota: Quota, scope: QuotaScope, after: QuotaAmount, added: QuotaAmount) {
  for (const of of ["notes", "bytes", "rows"] as const) {
    const limit = quota[scope][of];
    if (added[of] > 0 && after[of] > limit) return { scope, of, limit, used: after[of] - added[of], wanted: added[of] };
  }
  return undefined;
}

export function quotaExceededError({ scope, of, limit, used, wanted }: QuotaExcess): QmError {
  const message = `this ${scope} may store ${limit} ${of} and stores ${used}: ${wanted} more do not fit, and nothing was stored`;
  const hint =
    "Remove unused notes and collections, or ask for less. Remove them with {infospace__remove}. Narrow a result with {infospace__filter-structured}.";
  return new QmError("quota_exceeded", message, { hint, details: { scope, of, limit, used, wanted } });
}

/** Whether a quota is used up or the disk is full. */
export function isOutOfRoom(thrown: unknown): boolean {
  if (!(thrown instanceof QmError)) return false;
  return thrown.code === "quota_exceeded" || (thrown.code === "store_failed" && thrown.details.full === true);
}

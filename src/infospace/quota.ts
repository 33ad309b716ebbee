import { QmError } from "../core/errors.ts";

export const quotaScopes = ["session", "user", "tenant"] as const;
export type QuotaScope = (typeof quotaScopes)[number];

/** What notes and collections take up. */
export interface QuotaAmount {
  /** Notes and collections together. */
  readonly notes: number;
  /** Contents in every kept version, properties, and `NOTE_OVERHEAD` for each note and collection. */
  readonly bytes: number;
  /** Rows that say what collections hold, in every version. A stretch of notes that were kept in one go is one row. */
  readonly rows: number;
}

export type Quota = Readonly<Record<QuotaScope, QuotaAmount>>;

/** What is used, and by whom. */
export interface QuotaUsage extends QuotaAmount {
  readonly scope: QuotaScope;
  readonly tenant?: string;
  readonly user?: string;
  readonly session?: string;
}

/** What a note or collection takes up in the store beside its content: its row and its places in indexes. */
export const NOTE_OVERHEAD = 256;

const MIB = 1024 * 1024;

/** A laptop survives these: one person's sessions together stay below a gibibyte. */
export const DEFAULT_QUOTA: Quota = {
  session: { notes: 500_000, bytes: 256 * MIB, rows: 500_000 },
  user: { notes: 2_000_000, bytes: 1024 * MIB, rows: 2_000_000 },
  tenant: { notes: 4_000_000, bytes: 2048 * MIB, rows: 4_000_000 },
};

/** Limits where they differ from the usual ones. */
export type QuotaSettings = { readonly [Scope in QuotaScope]?: Partial<QuotaAmount> | undefined };

export function createQuota(settings: QuotaSettings = {}): Quota {
  const limits = (scope: QuotaScope): QuotaAmount => {
    const { notes, bytes, rows } = DEFAULT_QUOTA[scope];
    const given = settings[scope];
    return { notes: given?.notes ?? notes, bytes: given?.bytes ?? bytes, rows: given?.rows ?? rows };
  };
  return { session: limits("session"), user: limits("user"), tenant: limits("tenant") };
}

export interface QuotaExcess {
  readonly scope: QuotaScope;
  readonly of: keyof QuotaAmount;
  readonly limit: number;
  /** Before this write. */
  readonly used: number;
  readonly wanted: number;
}

/** The first limit that an addition would pass. */
export function findExcess(
  quota: Quota,
  scope: QuotaScope,
  after: QuotaAmount,
  added: QuotaAmount,
): QuotaExcess | undefined {
  for (const of of ["notes", "bytes", "rows"] as const) {
    const limit = quota[scope][of];
    if (added[of] > 0 && after[of] > limit) return { scope, of, limit, used: after[of] - added[of], wanted: added[of] };
  }
  return undefined;
}

export function quotaExceededError({ scope, of, limit, used, wanted }: QuotaExcess): QmError {
  return new QmError(
    "quota_exceeded",
    `this ${scope} may keep ${limit} ${of} and keeps ${used}: ${wanted} more do not fit, and nothing of this was kept`,
    {
      hint: "Remove notes and collections that are no longer needed with infospace__remove, or narrow the result first, for example with infospace__filter-structured or a smaller limit.",
      details: { scope, of, limit, used, wanted },
    },
  );
}

/** Whether there is no room for a write: a quota is used up, or the disk is full. */
export function isOutOfRoom(thrown: unknown): boolean {
  if (!(thrown instanceof QmError)) return false;
  return thrown.code === "quota_exceeded" || (thrown.code === "store_failed" && thrown.details.full === true);
}

import { z } from "zod";
import type { AskPerson } from "../approval/approval.ts";
import type { Provider } from "../catalog/define-action.ts";
import type { Caller, Dialogue } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import type { KnownSecret } from "../core/known-secret.ts";
import { didYouMean } from "../core/nearest.ts";
import type { Runtime } from "../core/runtime.ts";
import { type Duration, parseDuration } from "../core/runtime.ts";
import {
  activationScopes,
  type SearchType,
  type SurfaceChoice,
  searchTypes,
  selections,
  surfaceKinds,
} from "../core/surface-choice.ts";
import type { TraceCarrier, Tracer } from "../core/tracing.ts";
import type { Destinations } from "../distribution/destination-config.ts";
import type { QuotaSettings } from "../infospace/quota.ts";
import type { RunLimits } from "../invoke/runner.ts";
import type { PolicyOptions } from "../policy/policy.ts";
import type { RouteRule } from "../routing/rules.ts";
import type { DirectoryOptions } from "../search/directory.ts";
import type { EmbedderChoice } from "../search/embedders/create-embedder.ts";
import type { Embedder } from "../search/embedders/embedder.ts";

export interface QuartermasterOptions {
  /** One provider a category, beside the tools that are registered. */
  readonly providers?: readonly Provider[];
  readonly policy?: PolicyOptions;
  /** Path of the SQLite file that keeps the ledger. Absent: kept in memory, gone with the process. */
  readonly store?: string;
  readonly limits?: Partial<RunLimits>;
  /** How many characters of a result a model is shown. */
  readonly valueLimit?: number;
  /** Which surface `surface()` makes when it is not told. */
  readonly surface?: SurfaceChoice;
  readonly search?: SearchSettings;
  /** Where long results go, and what can be done with them unread. Absent: they are cut. */
  readonly infospace?: InfospaceSettings;
  readonly redact?: {
    /** Keys whose values are never written down, beside the built-in ones. */
    readonly names?: readonly string[];
    /** Values that are never written down, wherever they stand. Approvers see the name of one in place of its value. */
    readonly secrets?: () => Iterable<KnownSecret>;
  };
  readonly approvals?: {
    /** How a person is asked about a call that must be agreed to: for hosts that have somebody to ask. */
    readonly ask?: AskPerson;
    /** Whether what was agreed to elsewhere is run here, too, and what processes left behind is cleared up. Absent: yes. */
    readonly worker?: boolean;
  };
  /** Who takes which event, in order; the first that fits. */
  readonly routing?: readonly RouteRule[];
  /** Who gets what of a result that is not for everybody alike. */
  readonly destinations?: Destinations;
  /** Who is told what is done and how long it takes. Absent: nobody. */
  readonly tracer?: Tracer;
  /** Told what a provider did wrong, and of writes to the ledger that failed. It is in the ledger too, where that works. */
  readonly onProblem?: (problem: string) => void;
  readonly runtime?: Runtime;
}

/** Notes and collections. Everything is optional: `{}` keeps long results for a day. */
export interface InfospaceSettings {
  /** `false`: long results are cut, handles in arguments are left as they are, and the category `infospace` is not there. */
  readonly enabled?: boolean;
  /** How long what nobody saves is kept. `24h` when absent. */
  readonly expiresIn?: Duration;
  /** How many characters of what is kept a model is shown. 1,200 when absent. */
  readonly previewLimit?: number;
  /** How many characters arguments may have once handles in them are filled in. 4 MiB when absent. */
  readonly fillLimit?: number;
  /** How much may be kept. The limits that are not given are the usual ones: see docs/config.md. */
  readonly quota?: QuotaSettings;
}

/** How actions are found. Everything is optional; nothing given means search by words. */
export interface SearchSettings {
  /** `false`: no surface has a tool that searches, and `search()` rejects with `search_off`. */
  readonly enabled?: boolean;
  /** No search answers more, whatever is asked for. 20 when absent. */
  readonly maxResults?: number;
  /** Among equals the actions of these namespaces come first, in this order. */
  readonly preferredNamespaces?: readonly string[];
  /** Who turns texts into vectors, for search by meaning. `null`: nobody. Absent: nobody, and `list_actions` says so. */
  readonly embedder?: EmbedderChoice | Embedder | null;
  /** How long a search waits for the vector of its query before it goes on by words alone. 1,500 when absent. */
  readonly embedderTimeoutMs?: number;
  readonly index?: {
    /** Path of a SQLite file for the vectors alone. Absent: they are in the store. */
    readonly path?: string;
    /** `false`: every build embeds everything anew. */
    readonly incremental?: boolean;
    /** Whether the first build embeds everything anew. */
    readonly rebuild?: boolean;
    /** `false`: vectors that are there are used, and none are made until `embeddings.build()` is called. */
    readonly background?: boolean;
  };
  readonly hints?: {
    readonly enabled?: boolean;
    readonly topK?: number;
    readonly searchType?: SearchType;
    readonly includeAlwaysLoaded?: boolean;
  };
  readonly directory?: { readonly enabled?: boolean } & Partial<DirectoryOptions>;
}

/** Who asks, as far as the host knows: the actor defaults to `default`, the session to `local`. */
export type CallerOptions = Partial<Caller>;

export interface InvokeOptions {
  readonly caller?: CallerOptions;
  readonly signal?: AbortSignal;
  /** Answered `timed_out` after so many milliseconds, where that is less than the action's own time. */
  readonly timeoutMs?: number;
  /** The surface the call comes through, for the ledger. */
  readonly via?: string;
  /** What whoever made the call can be told and asked while it runs. Absent: nothing. */
  readonly dialogue?: Dialogue;
  /**
   * How a person is asked about this very call, beside every other way: shown exactly what would run, they agree, say no, or
   * leave it to others. Absent: a call that must be agreed to is answered `waiting`, where nobody else can be asked now.
   */
  readonly ask?: AskPerson;
  /** The trace the call belongs to. */
  readonly trace?: TraceCarrier;
  /** `false`: a result that is too long for a model is not kept as a note. For whoever takes `data` whole. */
  readonly keep?: boolean;
}

// The types say the same to whoever compiles. A misspelt `denied` or a caller that is not understood must not mean
// "everything, as anybody" to whoever does not.

const texts = z.array(z.string());
const whole = z.int().min(1);
const count = z.int().min(0).optional();
const amount = z.strictObject({ notes: count, bytes: count, rows: count }).optional();
const callback = z.custom<unknown>((value) => typeof value === "function", "expected a function");
const duration = z
  .string()
  .refine((text) => parseDuration(text) !== undefined, "expected a time such as 30s, 15m, 24h or 7d");
const limit = z.strictObject({ calls: whole.optional(), ms: whole.optional(), bytes: whole.optional() });
const surface = z.strictObject({
  kind: z.enum(surfaceKinds).optional(),
  tokenBudget: whole.optional(),
  selection: z.enum(selections).optional(),
  hotListN: z.int().min(0).max(64).optional(),
  hotListSeed: texts.optional(),
  defaultLoadingMode: z.enum(["always", "deferred"]).optional(),
  alwaysLoadedPatterns: texts.optional(),
  activationScope: z.enum(activationScopes).optional(),
});

const embedder = z.looseObject({ fingerprint: z.string().min(1), embed: callback });
const endpoint = z.strictObject({
  class: z.enum(["light", "standard", "strong"]),
  baseUrl: z.string().min(1).optional(),
  model: z.string().min(1).optional(),
  apiKey: z.string().min(1).optional(),
  dimensions: whole.optional(),
});
const localMini = z.strictObject({ class: z.literal("local-mini"), modelPath: z.string().min(1).optional() });
const search = z.strictObject({
  enabled: z.boolean().optional(),
  maxResults: whole.max(50).optional(),
  preferredNamespaces: texts.optional(),
  embedder: z
    .union([embedder, endpoint, localMini, z.strictObject({ class: z.literal("null") })])
    .nullable()
    .optional(),
  embedderTimeoutMs: whole.optional(),
  index: z
    .strictObject({
      path: z.string().min(1).optional(),
      incremental: z.boolean().optional(),
      rebuild: z.boolean().optional(),
      background: z.boolean().optional(),
    })
    .optional(),
  hints: z
    .strictObject({
      enabled: z.boolean().optional(),
      topK: whole.max(20).optional(),
      searchType: z.enum(searchTypes).optional(),
      includeAlwaysLoaded: z.boolean().optional(),
    })
    .optional(),
  directory: z
    .strictObject({
      enabled: z.boolean().optional(),
      maxGroups: whole.max(100).optional(),
      maxActionsPerGroup: z.int().min(0).max(50).optional(),
      showCounts: z.boolean().optional(),
      defaultGroups: z.boolean().optional(),
      groups: z
        .array(
          z.strictObject({
            name: z.string().min(1),
            title: z.string().optional(),
            trigger: z.string().optional(),
            namespaces: texts.optional(),
            tags: texts.optional(),
            actions: texts.optional(),
          }),
        )
        .optional(),
    })
    .optional(),
});

export const policyShape = z.strictObject({
  tools: z
    .strictObject({ allowed: texts.optional(), denied: texts.optional(), requireTags: texts.optional() })
    .optional(),
  gates: z.array(z.looseObject({ name: z.string(), guards: z.string(), shut: callback })).optional(),
  rules: z
    .array(
      z.strictObject({
        name: z.string().optional(),
        rule: z.string(),
        effect: z.enum(["hide", "deny", "ask"]),
        reason: z.string().optional(),
        level: z.string().min(1).optional(),
        expiresIn: duration.optional(),
      }),
    )
    .optional(),
  visibility: z.looseObject({ visibleTools: callback }).optional(),
  actors: z
    .array(
      z.strictObject({
        name: z.string().min(1),
        tools: texts,
        scope: z.string().optional(),
        attributes: z.record(z.string(), z.unknown()).optional(),
        surface: surface.optional(),
      }),
    )
    .optional(),
  budgets: z.strictObject({ turn: limit.optional(), session: limit.optional(), tenant: limit.optional() }).optional(),
  approvals: z
    .strictObject({
      categories: z
        .record(
          z.string(),
          z.union([
            z.boolean(),
            callback,
            z.strictObject({
              autoApproveIf: z.string().min(1),
              level: z.string().min(1).optional(),
              expiresIn: duration.optional(),
            }),
          ]),
        )
        .optional(),
      levels: z.record(z.string(), z.strictObject({ roles: texts.min(1) })).optional(),
      allowSelf: z.boolean().optional(),
      askClient: z.boolean().optional(),
      expiresIn: duration.optional(),
      maxOpen: whole.optional(),
    })
    .optional(),
});

export const quartermasterShape = z.strictObject({
  providers: z.array(z.looseObject({ category: z.string(), list: callback })).optional(),
  policy: policyShape.optional(),
  store: z.string().min(1).optional(),
  limits: z
    .strictObject({
      timeoutMs: z.number().min(1).optional(),
      concurrency: whole.optional(),
      queue: z.int().min(0).optional(),
    })
    .optional(),
  valueLimit: z.int().min(256).optional(),
  surface: surface.optional(),
  search: search.optional(),
  infospace: z
    .strictObject({
      enabled: z.boolean().optional(),
      expiresIn: duration.optional(),
      previewLimit: whole.min(300).optional(),
      fillLimit: whole.min(1024).optional(),
      quota: z.strictObject({ session: amount, user: amount, tenant: amount }).optional(),
    })
    .optional(),
  redact: z.strictObject({ names: texts.optional(), secrets: callback.optional() }).optional(),
  approvals: z.strictObject({ ask: callback.optional(), worker: z.boolean().optional() }).optional(),
  routing: z.array(z.looseObject({})).optional(),
  destinations: z.record(z.string(), z.union([callback, z.looseObject({ deliver: callback })])).optional(),
  tracer: z.looseObject({ start: callback, took: callback }).optional(),
  onProblem: callback.optional(),
  runtime: z.looseObject({ now: callback, elapsed: callback, newId: callback }).optional(),
});

export const callerShape = z.strictObject({
  actor: z.string().optional(),
  session: z.string().optional(),
  turn: z.string().optional(),
  user: z.looseObject({ id: z.string() }).optional(),
  person: z.string().optional(),
  tenant: z.string().optional(),
  client: z.string().optional(),
});

export const invokeShape = z.strictObject({
  caller: callerShape.optional(),
  signal: z.custom<unknown>((value) => value instanceof AbortSignal, "expected an AbortSignal").optional(),
  timeoutMs: z.number().min(1).optional(),
  via: z.string().optional(),
  dialogue: z
    .looseObject({
      owner: z.string().min(1),
      capabilities: z.looseObject({}),
      progress: callback,
      log: callback,
      ask: callback,
    })
    .optional(),
  ask: callback.optional(),
  trace: z.looseObject({}).optional(),
  keep: z.boolean().optional(),
});

export const listShape = z.strictObject({
  category: texts.optional(),
  filter: z.string().optional(),
  offset: z.number().optional(),
  limit: z.number().optional(),
});

export const queryShape = z.string();

export const replayShape = z.strictObject({ session: z.string().optional(), turn: z.string().optional() });

export const searchShape = z.strictObject({
  query: z.string(),
  type: z.enum(searchTypes).optional(),
  category: texts.optional(),
  limit: z.number().optional(),
  detail: z.enum(["compact", "full"]).optional(),
});

/** Throws `invalid_config` with everything that is wrong, each with its place and the nearest known key. */
export function requireShape(shape: z.ZodType, what: string, value: unknown): void {
  const checked = shape.safeParse(value);
  if (checked.success) return;
  const problems = checked.error.issues.slice(0, 8).flatMap((issue) => {
    const place = [what, ...issue.path.map(String)].join(".");
    if (issue.code !== "unrecognized_keys") return [`${place}: ${issue.message}`];
    const known = listKnownKeys(shape, issue.path);
    return issue.keys.map(
      (key) => `${place}.${key}: is no option${didYouMean(key, known) || `; known here: ${known.join(", ")}`}`,
    );
  });
  throw new QmError("invalid_config", problems.join("; "));
}

function listKnownKeys(shape: z.ZodType, path: readonly PropertyKey[]): readonly string[] {
  const [key, ...rest] = path;
  const inner = shape instanceof z.ZodOptional ? shape.unwrap() : shape;
  if (inner instanceof z.ZodArray) return listKnownKeys(inner.element as z.ZodType, rest);
  if (!(inner instanceof z.ZodObject)) return [];
  return key === undefined ? Object.keys(inner.shape) : listKnownKeys(inner.shape[String(key)] as z.ZodType, rest);
}

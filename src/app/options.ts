import { z } from "zod";
import type { CallActorOptions } from "../actor/envelope.ts";
import type { AskPerson } from "../approval/approval.ts";
import type { Provider } from "../catalog/define-action.ts";
import { embedderTimeoutMs, searchIndexOptions, searchOptions, surfaceOptions } from "../config/discovery-schema.ts";
import { listOptionKeys } from "../config/file-keys.ts";
import {
  approvalOptions,
  categoryApprovalOptions,
  infospaceOptions,
  limitOptions,
  valueLimit,
} from "../config/limits-schema.ts";
import {
  actorOptions,
  budgetOptions,
  policyRuleOptions,
  toolPolicyOptions,
  worldName,
  worldOptions,
} from "../config/policy-schema.ts";
import { duration, type Options } from "../config/schema-values.ts";
import { type Abortable, LazyAbortController } from "../core/abortable.ts";
import type { Caller, Dialogue, SayListener } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import { isRecord } from "../core/json.ts";
import type { KnownSecret } from "../core/known-secret.ts";
import type { Model } from "../core/model.ts";
import { quoteName } from "../core/names.ts";
import { didYouMean } from "../core/nearest.ts";
import type { Duration, Runtime } from "../core/runtime.ts";
import type { SandboxChoice } from "../core/sandbox.ts";
import { type SurfaceChoice, searchTypes, surfaceKinds } from "../core/surface-choice.ts";
import type { TraceCarrier, Tracer } from "../core/tracing.ts";
import type { Destinations } from "../distribution/destination-config.ts";
import { type AiSdkModel, toModel } from "../model/ai-sdk-model.ts";
import type { PolicyOptions } from "../policy/policy.ts";
import type { SkillRoot } from "../providers/skill/skill-folders.ts";
import type { SkillPinStore } from "../providers/skill/skill-pins.ts";
import type { RouteRule } from "../routing/rules.ts";
import type { EmbedderChoice } from "../search/embedders/create-embedder.ts";
import type { Embedder } from "../search/embedders/embedder.ts";

export interface QuartermasterOptions {
  /** One provider for each category, besides the registered tools. */
  readonly providers?: readonly Provider[];
  readonly policy?: PolicyOptions;
  /** The path of the SQLite file. Absent: everything is in memory. */
  readonly store?: string;
  /** The folders that are searched for skills. A skill of an earlier one wins over one of the same name in a later one. */
  readonly skills?: {
    readonly roots: readonly SkillRoot[];
    /** Which skills are trusted. Absent: the store has it. */
    readonly pins?: SkillPinStore;
    /** For skills of the type `code`. Absent: they run in a restricted process with the rights of this one. */
    readonly sandbox?: SandboxChoice;
  };
  /** Language models by name: our own `Model`, or one of the AI SDK as it is. Skills use `default`. */
  readonly models?: Readonly<Record<string, Model | AiSdkModel>>;
  /** Other agents that speak A2A 1.0, by name. They are actions: `agent.peer__<name>`. */
  readonly peers?: Readonly<Record<string, PeerOptions>>;
  readonly limits?: Options<z.input<typeof limitOptions>>;
  /** How many characters of a result a model is shown. */
  readonly valueLimit?: number;
  /** The default of `surface()`. */
  readonly surface?: SurfaceChoice;
  readonly search?: SearchSettings;
  /** Stores long results as notes. Absent: they are cut. */
  readonly infospace?: InfospaceSettings;
  /** The memories that actors keep across sessions. Absent: the categories `memory_operation` and `memory_entry` do not exist. */
  readonly memory?: { readonly enabled: boolean };
  /** Indexes documents and recalls passages from them. Absent: no. */
  readonly rag?: { readonly enabled: boolean };
  readonly redact?: {
    /** Keys whose values are not recorded, besides the built-in ones. */
    readonly names?: readonly string[];
    /** Values that are not recorded anywhere. Approvers see the name of a secret in place of its value. */
    readonly secrets?: () => Iterable<KnownSecret>;
  };
  readonly approvals?: {
    /** Asks a person to approve a call, for hosts that can reach one. */
    readonly ask?: AskPerson;
    /** Whether this process runs calls that were approved elsewhere and cleans up after dead processes. Default: true. */
    readonly worker?: boolean;
  };
  readonly ledger?: {
    /** Events older than this are removed. Absent: all are kept. */
    readonly keep?: Duration;
    /** The folder of files to which removed events are written first. Absent: they are gone. */
    readonly archive?: string;
  };
  /** Tried in order; the first that matches an event counts. */
  readonly routing?: readonly RouteRule[];
  readonly destinations?: Destinations;
  readonly tracer?: Tracer;
  /** Called with each message of `infospace__say` to the user, besides the call's own dialogue. */
  readonly onSay?: SayListener;
  /** Called with faults of providers and failed writes to the ledger. The ledger records them too, if it can. */
  readonly onProblem?: (problem: string) => void;
  readonly runtime?: Runtime;
}

export interface PeerOptions {
  /** The address of the agent, or of its card if it ends in `.json`. A function is called for each use. */
  readonly url: string | (() => string);
  /** Sent with each request, for example a token. */
  readonly headers?: () => Readonly<Record<string, string>>;
  /** Its purpose. Models see it; they never see the text of its card. */
  readonly description?: string;
  /** How long a call waits for its answer. Default: five minutes. */
  readonly timeoutMs?: number;
}

/** The caller as the host describes it. The actor defaults to `default`, the session to `local`. */
export type CallerOptions = Partial<Caller>;

export interface InvokeOptions {
  readonly caller?: CallerOptions;
  /** Cancels the call. */
  readonly signal?: Abortable;
  /** The call ends with `timed_out` after this time, if that is less than the action's own limit. */
  readonly timeoutMs?: number;
  /** The surface the call comes through, for the ledger. */
  readonly via?: string;
  /** Receives progress, log lines and questions while the call runs. */
  readonly dialogue?: Dialogue;
  /**
   * Asks a person to approve this call, besides all other ways; they see exactly what would run. Absent: a call that
   * needs approval is `waiting`, unless another way reaches a person now.
   */
  readonly ask?: AskPerson;
  readonly trace?: TraceCarrier;
  /** `false`: a long result is not stored as a note, for callers that use the whole `data`. */
  readonly keep?: boolean;
}

// TypeScript checks the same at compile time. These checks are for plain JavaScript: a misspelt `denied` or `caller`
// must not mean "allow everything to everyone".

const texts = z.array(z.string());
const callback = z.custom<unknown>((value) => typeof value === "function", "expected a function");
const text = z.string().min(1).optional();

/** Models are often instances of classes, so inherited methods count. */
function isModel(value: unknown): boolean {
  if (!isRecord(value)) return false;
  return (
    typeof value.doGenerate === "function" || (typeof value.generate === "function" && typeof value.name === "string")
  );
}
const dimensions = z.int().min(1).optional();
const anyObject = z.looseObject({});
const embedder = z.union([
  z.looseObject({ fingerprint: z.string().min(1), embed: callback }),
  z.strictObject({
    class: z.enum(["light", "standard", "strong"]),
    baseUrl: text,
    model: text,
    apiKey: text,
    dimensions,
  }),
  z.strictObject({ class: z.literal("local-mini"), modelPath: text }),
  z.strictObject({ class: z.literal("null") }),
]) as unknown as z.ZodType<EmbedderChoice | Embedder, EmbedderChoice | Embedder>;

const searchSchema = z.strictObject({
  ...searchOptions,
  /** Turns texts into vectors, for search by meaning. `null`: none. Absent: none, and `list_actions` says so. */
  embedder: embedder.nullable().optional(),
  embedderTimeoutMs,
  index: searchIndexOptions
    .extend({
      path: text,
      /** `false`: existing vectors are used, and missing ones are made only by `embeddings.build()`. */
      background: z.boolean().default(true),
    })
    .prefault({}),
});

/** How actions are found. Everything is optional; the default is search by words. `docs/config.md` explains the options. */
export type SearchSettings = Options<z.input<typeof searchSchema>>;

/** Notes and collections. Everything is optional; `docs/config.md` explains the options. */
export type InfospaceSettings = Options<z.input<typeof infospaceOptions>>;

export const policyOptionsSchema = z.strictObject({
  tools: toolPolicyOptions.optional(),
  gates: z.array(z.looseObject({ name: z.string(), guards: z.string(), shut: callback })).optional(),
  rules: z.array(policyRuleOptions.partial({ name: true })).optional(),
  visibility: z.looseObject({ visibleTools: callback }).optional(),
  // Attributes come from the host's own data, so they may hold any JSON.
  actors: z
    .array(actorOptions.extend({ name: z.string().min(1), attributes: z.looseObject({}).optional() }))
    .optional(),
  worlds: z.array(worldOptions.partial().extend({ name: worldName })).optional(),
  world: z.string().min(1).optional(),
  budgets: budgetOptions.optional(),
  approvals: approvalOptions
    .extend({ categories: z.record(z.string(), z.union([z.boolean(), callback, categoryApprovalOptions])).optional() })
    .optional(),
});

export const surfaceOptionsSchema = surfaceOptions.optional();

const quartermasterSchema = z.strictObject({
  providers: z.array(z.looseObject({ category: z.string(), list: callback })).optional(),
  policy: policyOptionsSchema.optional(),
  store: z.string().min(1).optional(),
  skills: z
    .strictObject({
      roots: z.array(
        z.strictObject({
          folder: z.string().min(1),
          source: z.string().min(1),
          trusted: z.boolean(),
          world: worldName.optional(),
        }),
      ),
      sandbox: z.looseObject({ sandbox: anyObject, settings: anyObject }).optional(),
      pins: z
        .looseObject({
          all: callback,
          get: callback,
          getFiles: callback,
          getContent: callback,
          add: callback,
          replace: callback,
        })
        .optional(),
    })
    .optional(),
  models: z
    .record(
      z.string(),
      z.custom<unknown>(isModel, "expected a Model with name and generate, or a language model of the AI SDK"),
    )
    .optional(),
  peers: z
    .record(
      z.string().regex(/^[A-Za-z][A-Za-z0-9_.-]{0,63}$/),
      z.strictObject({
        url: z.union([z.string().min(1), callback]),
        headers: callback.optional(),
        description: text,
        timeoutMs: z.number().min(1).optional(),
      }),
    )
    .optional(),
  // The runner takes any time; the file refuses times that are most likely mistakes.
  limits: limitOptions.extend({ timeoutMs: z.number().min(1).default(60_000) }).prefault({}),
  valueLimit,
  surface: surfaceOptionsSchema,
  search: searchSchema.prefault({}),
  infospace: infospaceOptions.prefault({ enabled: false }),
  memory: z.strictObject({ enabled: z.boolean() }).prefault({ enabled: false }),
  rag: z.strictObject({ enabled: z.boolean() }).prefault({ enabled: false }),
  redact: z.strictObject({ names: texts.optional(), secrets: callback.optional() }).optional(),
  approvals: z.strictObject({ ask: callback.optional(), worker: z.boolean().optional() }).optional(),
  ledger: z.strictObject({ keep: duration().optional(), archive: text }).optional(),
  routing: z.array(z.looseObject({})).optional(),
  destinations: z.record(z.string(), z.union([callback, z.looseObject({ deliver: callback })])).optional(),
  tracer: z.looseObject({ start: callback, took: callback }).optional(),
  onSay: callback.optional(),
  onProblem: callback.optional(),
  runtime: z.looseObject({ now: callback, elapsed: callback, newId: callback }).optional(),
} satisfies Record<keyof QuartermasterOptions, z.ZodType>);

type Defaulted = "limits" | "valueLimit" | "search" | "infospace" | "memory";

/** Options with the defaults of limits, search and notes filled in. */
export type ResolvedOptions = Omit<QuartermasterOptions, Defaulted | "models"> &
  Pick<Options<z.output<typeof quartermasterSchema>>, Defaulted> & { readonly models: ReadonlyMap<string, Model> };

/** Checks options and fills in defaults. The host's own objects stay the same objects. Throws `invalid_config`. */
export function resolveOptions(options: QuartermasterOptions): ResolvedOptions {
  // They are checked once, and zod compiles a schema at its first use, which takes longer than the check.
  const checked = checkOptions(quartermasterSchema, "options", options, { jitless: true });
  const { limits, valueLimit, search, infospace, memory } = checked;
  const ownEmbedder = options.search?.embedder === undefined ? {} : { embedder: options.search.embedder };
  const models = new Map(Object.entries(options.models ?? {}).map(([name, model]) => [name, toModel(name, model)]));
  for (const { name, model } of options.policy?.actors ?? []) {
    if (model === undefined || models.has(model)) continue;
    const message = `no model is called ${quoteName(model)}${didYouMean(model, models.keys())}`;
    throw new QmError("invalid_config", `options.policy.actors: ${name}.model: ${message}`);
  }
  return { ...options, models, limits, valueLimit, search: { ...search, ...ownEmbedder }, infospace, memory };
}

export const callerSchema = z.strictObject({
  actor: z.string().optional(),
  session: z.string().optional(),
  turn: z.string().optional(),
  user: z.looseObject({ id: z.string() }).optional(),
  person: z.string().optional(),
  tenant: z.string().optional(),
  client: z.string().optional(),
  hops: z.int().min(0).optional(),
});

export const invokeSchema = z.strictObject({
  caller: callerSchema.optional(),
  signal: z.custom<unknown>((value) => value instanceof AbortSignal, "expected an AbortSignal").optional(),
  timeoutMs: z.number().min(1).optional(),
  via: z.string().optional(),
  dialogue: z
    .looseObject({
      owner: z.string().min(1),
      capabilities: anyObject,
      progress: callback,
      log: callback,
      ask: callback,
    })
    .optional(),
  ask: callback.optional(),
  trace: z.looseObject({}).optional(),
  keep: z.boolean().optional(),
});

const callerTexts: ReadonlySet<string> = new Set(["actor", "session", "turn", "person", "tenant", "client"]);

/** Checks with `invokeSchema`. Options with nothing but a caller of texts are seen to fit without it, at less cost. */
export function checkInvokeOptions(options: InvokeOptions): void {
  if (!isRecord(options)) checkOptions(invokeSchema, "options", options);
  // Only our own gateway has such a signal.
  if (options.signal instanceof LazyAbortController) return;
  const { caller = {}, ...rest } = options;
  const fits =
    Object.keys(rest).length === 0 &&
    isRecord(caller) &&
    Object.entries(caller).every(([key, value]) => typeof value === "string" && callerTexts.has(key));
  if (!fits) checkOptions(invokeSchema, "options", options);
}

const callActorSchema = z.strictObject({
  caller: callerSchema.optional(),
  signal: invokeSchema.shape.signal,
  onEvent: callback.optional(),
});

/** Throws `invalid_config`. The objects of the host stay the same objects. */
export function checkActorOptions(options: CallActorOptions): CallActorOptions {
  checkOptions(callActorSchema, "options", options);
  return options;
}

const word = z.string().optional();
const amount = z.number().optional();
export const listSchema = z.strictObject({ category: texts.optional(), filter: word, offset: amount, limit: amount });

export const querySchema = z.string();
export const promptSchema = z.strictObject({
  query: word,
  kind: z.enum(surfaceKinds).optional(),
  tokens: z.boolean().optional(),
  dynamic: z.boolean().optional(),
});
export const replaySchema = z.strictObject({ session: z.string().optional(), turn: z.string().optional() });

export const searchQuerySchema = z.strictObject({
  query: z.string(),
  type: z.enum(searchTypes).optional(),
  category: texts.optional(),
  limit: z.number().optional(),
  detail: z.enum(["compact", "full"]).optional(),
});

/** Returns the options with defaults. Throws `invalid_config` with every problem, its place and the nearest known key. */
export function checkOptions<S extends z.ZodType>(
  schema: S,
  what: string,
  value: unknown,
  context?: z.core.ParseContext<z.core.$ZodIssue>,
): Options<z.output<S>> {
  const checked = schema.safeParse(value, context);
  if (checked.success) return checked.data as Options<z.output<S>>;
  const problems = checked.error.issues.slice(0, 8).flatMap((issue) => {
    const place = [what, ...issue.path.map(String)].join(".");
    if (issue.code !== "unrecognized_keys") return [`${place}: ${issue.message}`];
    const known = listOptionKeys(schema, issue.path);
    return issue.keys.map(
      (key) => `${place}.${key}: unknown option${didYouMean(key, known) || `; known here: ${known.join(", ")}`}`,
    );
  });
  throw new QmError("invalid_config", problems.join("; "));
}

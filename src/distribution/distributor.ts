import { withTimeout } from "../core/async.ts";
import type { Caller } from "../core/caller.ts";
import { messageOf } from "../core/errors.ts";
import type { UnstampedEvent } from "../core/events.ts";
import type { Json } from "../core/json.ts";
import type { ActionName } from "../core/names.ts";
import type { Runtime } from "../core/runtime.ts";
import type { AnchorStore } from "./anchor-store.ts";
import { type AnchoredView, anchoredView } from "./anchored-view.ts";
import { anchorOwner } from "./anchors.ts";
import type { AnnotatedRecord, Annotations } from "./annotated-record.ts";
import { createDelivery, type Delivery } from "./delivery.ts";
import type { Destination } from "./destination.ts";
import { type CheckedDestination, checkedDestinations, type Destinations, fieldsFor } from "./destinations.ts";
import { jsonTextOf } from "./json-text.ts";
import { checkedAnswer } from "./model-answer.ts";
import { deliveryLimit, isOwnProblem } from "./own-problem.ts";
import { createPruning } from "./pruning.ts";
import { rulesFor, rulesForAnybody } from "./rules.ts";
import { plainView } from "./view.ts";
import { holdsOneOf, withheldValues } from "./withheld-values.ts";

export interface DistributionLimits {
  /** For a destination that states none of its own. */
  readonly timeoutMs: number;
  /** How long a model's view is waited for. */
  readonly modelTimeoutMs: number;
  /** Results waiting for one destination, beyond which one is dropped. */
  readonly waiting: number;
  /** Anchored values of one result; one beyond is hidden from the model. */
  readonly anchors: number;
}

const defaultLimits: DistributionLimits = { timeoutMs: 30_000, modelTimeoutMs: 5_000, waiting: 256, anchors: 2_000 };

/** A view that did not get to its destination. */
export type DistributionEvent = UnstampedEvent<"distribution.failed">;

interface DistributorParts {
  readonly destinations?: Destinations;
  readonly anchors: AnchorStore;
  readonly runtime: Runtime;
  readonly note: (caller: Caller, event: DistributionEvent) => void;
  readonly onProblem: (problem: string) => void;
  readonly limits?: Partial<DistributionLimits>;
}

/** The call that a result is of. */
interface ResultOf {
  readonly callId: string;
  readonly action: ActionName;
  readonly caller: Caller;
  /** Aborted: a view for the model that a host makes is not waited for. */
  readonly signal?: AbortSignal | undefined;
}

/** A result as each of those sees it who wait for it. */
export interface Distributed {
  /** The whole record, for programs. */
  readonly data: unknown;
  readonly forModel: Json;
  /** What the ledger may write. */
  readonly audit: Json;
}

export interface Distributor {
  /**
   * Divides a result: every destination gets its own view and its own copy. Waits for the model's alone; a destination
   * that fails, in whatever way, is reported and changes nothing for anybody else. Rejects with `invalid_output` for a
   * record that is not JSON, and then nobody gets anything.
   */
  distribute(answered: AnnotatedRecord<unknown>, about: ResultOf): Promise<Distributed>;
  /** Waits a while for what is still to be delivered. */
  close(): Promise<void>;
}

interface Job {
  readonly text: string;
  readonly annotations: Annotations;
  readonly about: ResultOf;
}

const CLOSING_MS = 5_000;

const UNTOLD = "it failed, and what it said holds a value that is kept back";

/** Throws `invalid_config` for destinations that cannot be. */
export function createDistributor(parts: DistributorParts): Distributor {
  const { anchors: store, runtime, note } = parts;
  const onProblem = (problem: string): void => quietly(() => parts.onProblem(problem));
  const limits = { ...defaultLimits, ...parts.limits };
  const destinations = checkedDestinations(parts.destinations ?? {});
  const [model, audit] = (["llm-session", "audit"] as const).map((named) =>
    destinations.find(({ name }) => name === named),
  );
  const prune = createPruning(store, runtime.now, onProblem);

  function failed(destination: Destination, job: Job, thrown: unknown): void {
    const { callId, action, caller } = job.about;
    const reason = publicReason(job, thrown);
    quietly(() => note(caller, { type: "distribution.failed", data: { callId, action, destination, reason } }));
    onProblem(`call ${callId}: what ${action} answered did not get to ${destination}: ${reason}`);
  }

  /** What a destination says goes to the ledger and to logs, and it knows more than those may. */
  function publicReason({ text, annotations }: Job, thrown: unknown): string {
    const said = messageOf(thrown);
    if (isOwnProblem(thrown)) return said;
    try {
      const values = withheldValues(JSON.parse(text) as Json, rulesForAnybody(annotations, destinations));
      return holdsOneOf(said, values) ? UNTOLD : said;
    } catch {
      return UNTOLD;
    }
  }

  function deliver(destination: CheckedDestination, view: Json, { annotations, about }: Job, signal: AbortSignal) {
    const { callId, action } = about;
    const caller = structuredClone(about.caller);
    const fields = fieldsFor(destination.name, annotations);
    return destination.deliver(view, { callId, action, caller, destination: destination.name, fields, signal });
  }

  const deliveries: readonly Delivery<Job>[] = destinations
    .filter((destination) => destination !== model)
    .map((destination) =>
      createDelivery<Job>({
        timeoutMs: destination.timeoutMs ?? limits.timeoutMs,
        waiting: limits.waiting,
        deliver: (job, signal) => deliver(destination, viewFor(destination.name, job, destination), job, signal),
        failed: (job, thrown) => failed(destination.name, job, thrown),
      }),
    );

  /** `bare`: what is shown when the tokens cannot be kept. */
  async function ownView(job: Job, bare: Json): Promise<AnchoredView> {
    try {
      const rules = rulesFor("llm-session", job.annotations, model);
      const owner = anchorOwner(job.about.caller);
      const own = await anchoredView(JSON.parse(job.text) as Json, rules, {
        store,
        owner,
        newId: runtime.newId,
        limit: limits.anchors,
      });
      if (own.tokens.size > 0) prune();
      if (own.problem !== undefined) failed("llm-session", job, own.problem);
      return own;
    } catch (thrown) {
      failed("llm-session", job, thrown);
      return { view: bare, tokens: new Set() };
    }
  }

  async function forModel(job: Job, bare: Json): Promise<Json> {
    const own = await ownView(job, bare);
    if (model === undefined) return own.view;
    const rules = rulesFor("llm-session", job.annotations, model);
    const timeoutMs = model.timeoutMs ?? limits.modelTimeoutMs;
    try {
      const copy = structuredClone(own.view);
      const answer = await withTimeout(deliveryLimit(timeoutMs, job.about.signal), (signal) =>
        deliver(model, copy, job, signal),
      );
      return answer === undefined ? own.view : checkedAnswer(answer, JSON.parse(job.text) as Json, rules, own);
    } catch (thrown) {
      failed("llm-session", job, thrown);
      return own.view;
    }
  }

  return {
    async distribute({ record, annotations }, about) {
      const text = jsonTextOf(record);
      const job: Job = { text, annotations, about };
      const forAudit = viewFor("audit", job, audit);
      const bare = viewFor("llm-session", job, model);
      for (const delivery of deliveries) delivery.offer(job);
      return { data: record ?? null, forModel: await forModel(job, bare), audit: forAudit };
    },
    async close() {
      await Promise.all(deliveries.map((delivery) => delivery.close(CLOSING_MS)));
    },
  };
}

function viewFor(destination: Destination, { text, annotations }: Job, withheld: CheckedDestination | undefined): Json {
  const rules = rulesFor(destination, annotations, withheld);
  return plainView(JSON.parse(text) as Json, rules);
}

/** Whoever is told of a problem must not make another. */
function quietly(tell: () => void): void {
  try {
    tell();
  } catch {}
}

import { withTimeout } from "../core/async.ts";
import type { Caller } from "../core/caller.ts";
import { getErrorMessage } from "../core/errors.ts";
import type { UnstampedEvent } from "../core/events.ts";
import type { Json } from "../core/json.ts";
import type { ActionName } from "../core/names.ts";
import type { Runtime } from "../core/runtime.ts";
import type { AnchorStore } from "./anchors.ts";
import { anchorOwner, createAnchorPruner } from "./anchors.ts";
import type { AnnotatedRecord, Annotations, Destination } from "./annotated-record.ts";
import { stringifyRecord } from "./annotated-record.ts";
import { createDeliveryQueue, type DeliveryQueue, deliveryLimit, isPublicError } from "./delivery-queue.ts";
import { type CheckedDestination, checkDestinations, type Destinations, describeFields } from "./destination-config.ts";
import {
  type AnchoredView,
  checkModelAnswer,
  collectWithheldValues,
  containsWithheld,
  createAnchoredView,
} from "./model-view.ts";
import { buildPublicRules, buildRules } from "./rules.ts";
import { createPlainView } from "./view.ts";

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
interface ResultContext {
  readonly callId: string;
  readonly action: ActionName;
  readonly caller: Caller;
  /** Aborted: a view for the model that a host makes is not waited for. */
  readonly signal?: AbortSignal | undefined;
}

/** A result as each of those sees it who wait for it. */
export interface DistributedResult {
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
  distribute(answered: AnnotatedRecord<unknown>, about: ResultContext): Promise<DistributedResult>;
  /** Waits a while for what is still to be delivered. */
  close(): Promise<void>;
}

interface DeliveryJob {
  readonly text: string;
  readonly annotations: Annotations;
  readonly about: ResultContext;
}

const CLOSING_MS = 5_000;

const WITHHELD_REASON = "it failed, and what it said holds a value that is kept back";

/** Throws `invalid_config` for destinations that cannot be. */
export function createDistributor(parts: DistributorParts): Distributor {
  const { anchors: store, runtime, note } = parts;
  const onProblem = (problem: string): void => ignoreErrors(() => parts.onProblem(problem));
  const limits = { ...defaultLimits, ...parts.limits };
  const destinations = checkDestinations(parts.destinations ?? {});
  const [model, audit] = (["llm-session", "audit"] as const).map((named) =>
    destinations.find(({ name }) => name === named),
  );
  const prune = createAnchorPruner(store, runtime.now, onProblem);

  function reportFailure(destination: Destination, job: DeliveryJob, thrown: unknown): void {
    const { callId, action, caller } = job.about;
    const reason = publicReason(job, thrown);
    ignoreErrors(() => note(caller, { type: "distribution.failed", data: { callId, action, destination, reason } }));
    onProblem(`call ${callId}: what ${action} answered did not get to ${destination}: ${reason}`);
  }

  /** What a destination says goes to the ledger and to logs, and it knows more than those may. */
  function publicReason({ text, annotations }: DeliveryJob, thrown: unknown): string {
    const said = getErrorMessage(thrown);
    if (isPublicError(thrown)) return said;
    try {
      const values = collectWithheldValues(JSON.parse(text) as Json, buildPublicRules(annotations, destinations));
      return containsWithheld(said, values) ? WITHHELD_REASON : said;
    } catch {
      return WITHHELD_REASON;
    }
  }

  function deliver(
    destination: CheckedDestination,
    view: Json,
    { annotations, about }: DeliveryJob,
    signal: AbortSignal,
  ) {
    const { callId, action } = about;
    const caller = structuredClone(about.caller);
    const fields = describeFields(destination.name, annotations);
    return destination.deliver(view, { callId, action, caller, destination: destination.name, fields, signal });
  }

  const deliveries: readonly DeliveryQueue<DeliveryJob>[] = destinations
    .filter((destination) => destination !== model)
    .map((destination) =>
      createDeliveryQueue<DeliveryJob>({
        timeoutMs: destination.timeoutMs ?? limits.timeoutMs,
        waiting: limits.waiting,
        deliver: (job, signal) =>
          deliver(destination, createDestinationView(destination.name, job, destination), job, signal),
        failed: (job, thrown) => reportFailure(destination.name, job, thrown),
      }),
    );

  /** `bare`: what is shown when the tokens cannot be kept. */
  async function anchorModelView(job: DeliveryJob, bare: Json): Promise<AnchoredView> {
    try {
      const rules = buildRules("llm-session", job.annotations, model);
      const owner = anchorOwner(job.about.caller);
      const own = await createAnchoredView(JSON.parse(job.text) as Json, rules, {
        store,
        owner,
        newId: runtime.newId,
        limit: limits.anchors,
      });
      if (own.tokens.size > 0) prune();
      if (own.problem !== undefined) reportFailure("llm-session", job, own.problem);
      return own;
    } catch (thrown) {
      reportFailure("llm-session", job, thrown);
      return { view: bare, tokens: new Set() };
    }
  }

  async function createModelView(job: DeliveryJob, bare: Json): Promise<Json> {
    const own = await anchorModelView(job, bare);
    if (model === undefined) return own.view;
    const rules = buildRules("llm-session", job.annotations, model);
    const timeoutMs = model.timeoutMs ?? limits.modelTimeoutMs;
    try {
      const copy = structuredClone(own.view);
      const answer = await withTimeout(deliveryLimit(timeoutMs, job.about.signal), (signal) =>
        deliver(model, copy, job, signal),
      );
      return answer === undefined ? own.view : checkModelAnswer(answer, JSON.parse(job.text) as Json, rules, own);
    } catch (thrown) {
      reportFailure("llm-session", job, thrown);
      return own.view;
    }
  }

  return {
    async distribute({ record, annotations }, about) {
      const text = stringifyRecord(record);
      const job: DeliveryJob = { text, annotations, about };
      const forAudit = createDestinationView("audit", job, audit);
      const bare = createDestinationView("llm-session", job, model);
      for (const delivery of deliveries) delivery.offer(job);
      return { data: record ?? null, forModel: await createModelView(job, bare), audit: forAudit };
    },
    async close() {
      await Promise.all(deliveries.map((delivery) => delivery.close(CLOSING_MS)));
    },
  };
}

function createDestinationView(
  destination: Destination,
  { text, annotations }: DeliveryJob,
  withheld: CheckedDestination | undefined,
): Json {
  const rules = buildRules(destination, annotations, withheld);
  return createPlainView(JSON.parse(text) as Json, rules);
}

/** Whoever is told of a problem must not make another. */
function ignoreErrors(tell: () => void): void {
  try {
    tell();
  } catch {}
}

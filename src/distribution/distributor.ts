import type { Abortable } from "../core/abortable.ts";
import { withTimeout } from "../core/async.ts";
import type { Caller } from "../core/caller.ts";
import { isForPeer } from "../core/delegation.ts";
import { getErrorMessage } from "../core/errors.ts";
import type { UnstampedEvent } from "../core/events.ts";
import type { Json } from "../core/json.ts";
import type { ActionName } from "../core/names.ts";
import type { Runtime } from "../core/runtime.ts";
import { type AnchorStore, anchorOwner, createAnchorPruner } from "./anchors.ts";
import { type AnnotatedRecord, type Annotations, type Destination, stringifyRecord } from "./annotated-record.ts";
import { createDeliveryQueue, deliveryLimit, isPublicError } from "./delivery-queue.ts";
import { type CheckedDestination, checkDestinations, type Destinations, describeFields } from "./destination-config.ts";
import { checkModelAnswer, collectWithheldValues, containsWithheld, createAnchoredView } from "./model-view.ts";
import { buildPublicRules, buildRules } from "./rules.ts";
import { createPlainView } from "./view.ts";

export interface DistributionLimits {
  readonly timeoutMs: number;
  readonly modelTimeoutMs: number;
  /** The longest queue of a destination. Further results are dropped. */
  readonly waiting: number;
  /** Anchored values of one result. Further ones are hidden from the model. */
  readonly anchors: number;
}

const defaultLimits: DistributionLimits = { timeoutMs: 30_000, modelTimeoutMs: 5_000, waiting: 256, anchors: 2_000 };

export type DistributionEvent = UnstampedEvent<"distribution.failed">;

interface DistributorOptions {
  readonly destinations?: Destinations;
  readonly anchors: AnchorStore;
  readonly runtime: Runtime;
  readonly note: (caller: Caller, event: DistributionEvent) => void;
  readonly onProblem: (problem: string) => void;
  readonly limits?: Partial<DistributionLimits>;
}

interface ResultContext {
  readonly callId: string;
  readonly action: ActionName;
  readonly caller: Caller;
  /** Aborts the wait for a view from the host. */
  readonly signal?: Abortable | undefined;
  /** Whether another agent gets the result itself, in place of a model. */
  readonly isPeerCall?: boolean;
}

export type DistributedResult = { readonly data: unknown; readonly forModel: Json; readonly audit: Json };

export type Distributor = ReturnType<typeof createDistributor>;

type DeliveryJob = { readonly text: string; readonly annotations: Annotations; readonly about: ResultContext };

const CLOSING_MS = 5_000;
const WITHHELD_REASON = "it failed, and its message contains a withheld value";

/** Throws `invalid_config` for invalid destinations. */
export function createDistributor(options: DistributorOptions) {
  const { anchors: store, runtime, note } = options;
  const onProblem = (problem: string): void => ignoreErrors(() => options.onProblem(problem));
  const limits = { ...defaultLimits, ...options.limits };
  const destinations = checkDestinations(options.destinations ?? {});
  const model = destinations.find(({ name }) => name === "llm-session");
  const audit = destinations.find(({ name }) => name === "audit");
  const peer = destinations.find(({ name }) => name === "peer-response");
  const prune = createAnchorPruner(store, runtime.now, onProblem);

  function reportFailure(destination: Destination, job: DeliveryJob, thrown: unknown): void {
    const { callId, action, caller } = job.about;
    const reason = getPublicReason(job, thrown);
    ignoreErrors(() => note(caller, { type: "distribution.failed", data: { callId, action, destination, reason } }));
    onProblem(`call ${callId}: the result of ${action} was not delivered to ${destination}: ${reason}`);
  }

  /** The reason goes to the ledger and to logs, so it must not contain a value that they may not have. */
  function getPublicReason({ text, annotations }: DeliveryJob, thrown: unknown): string {
    const message = getErrorMessage(thrown);
    if (isPublicError(thrown)) return message;
    try {
      const values = collectWithheldValues(JSON.parse(text) as Json, buildPublicRules(annotations, destinations));
      return containsWithheld(message, values) ? WITHHELD_REASON : message;
    } catch {
      return WITHHELD_REASON;
    }
  }

  function deliver(destination: CheckedDestination, view: Json, job: DeliveryJob, signal: AbortSignal) {
    const { name } = destination;
    const { callId, action } = job.about;
    const caller = structuredClone(job.about.caller);
    const fields = describeFields(name, job.annotations);
    return destination.deliver(view, { callId, action, caller, destination: name, fields, signal });
  }

  const deliveries = destinations
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

  /** Returns `plain` if the tokens cannot be stored. */
  async function anchorModelView(job: DeliveryJob, plain: Json) {
    try {
      const rules = buildRules("llm-session", job.annotations, model);
      const owner = anchorOwner(job.about.caller);
      const anchoring = { store, owner, newId: runtime.newId, limit: limits.anchors };
      const own = await createAnchoredView(JSON.parse(job.text) as Json, rules, anchoring);
      if (own.tokens.size > 0) prune();
      if (own.problem !== undefined) reportFailure("llm-session", job, own.problem);
      return own;
    } catch (thrown) {
      reportFailure("llm-session", job, thrown);
      return { view: plain, tokens: new Set<string>() };
    }
  }

  async function createModelView(job: DeliveryJob, plain: Json): Promise<Json> {
    const own = await anchorModelView(job, plain);
    if (model === undefined) return own.view;
    const rules = buildRules("llm-session", job.annotations, model);
    const timeoutMs = model.timeoutMs ?? limits.modelTimeoutMs;
    try {
      const copy = structuredClone(own.view);
      const limit = deliveryLimit(timeoutMs, job.about.signal);
      const answer = await withTimeout(limit, (signal) => deliver(model, copy, job, signal));
      return answer === undefined ? own.view : checkModelAnswer(answer, JSON.parse(job.text) as Json, rules, own);
    } catch (thrown) {
      reportFailure("llm-session", job, thrown);
      return own.view;
    }
  }

  return {
    /**
     * Sends each destination its view, waiting only for the model's. A failing destination is reported and does not affect
     * the others. Rejects with `invalid_output`, and sends nothing, if the record is not JSON.
     */
    async distribute(result: AnnotatedRecord<unknown>, about: ResultContext): Promise<DistributedResult> {
      const { record, annotations } = result;
      const job: DeliveryJob = { text: stringifyRecord(record), annotations, about };
      const forAudit = createDestinationView("audit", job, audit);
      const forPeer = isForPeer(about.caller) ? createDestinationView("peer-response", job, peer) : undefined;
      // A model that works for another agent would tell it what it sees.
      const seen = forPeer === undefined ? job : { ...job, text: JSON.stringify(forPeer) };
      const plain = createDestinationView("llm-session", seen, model);
      for (const delivery of deliveries) delivery.offer(job);
      const forModel = about.isPeerCall && forPeer !== undefined ? forPeer : await createModelView(seen, plain);
      return { data: record ?? null, forModel, audit: forAudit };
    },
    async close() {
      await Promise.all(deliveries.map((delivery) => delivery.close(CLOSING_MS)));
    },
  };
}

function createDestinationView(name: Destination, { text, annotations }: DeliveryJob, withheld?: CheckedDestination) {
  return createPlainView(JSON.parse(text) as Json, buildRules(name, annotations, withheld));
}

function ignoreErrors(work: () => void): void {
  try {
    work();
  } catch {}
}

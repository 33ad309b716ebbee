import type { Caller } from "../core/caller.ts";
import { messageOf, QmError } from "../core/errors.ts";
import { clip } from "../core/json.ts";
import type { Runtime } from "../core/runtime.ts";
import { deliveryOf, type Note, nextDepth, noteRouted, type Origin } from "./announce.ts";
import { inTries } from "./course.ts";
import { type RoutableEvent, type RoutedEvent, requireEvent } from "./event.ts";
import type { CompiledRule, RouteFacts, RuleBook } from "./rules.ts";
import type { Delivery, Subscribers } from "./subscribers.ts";
import { type UnderWay, wasCancelled } from "./under-way.ts";

export type EventHandler = (event: RoutableEvent, signal: AbortSignal) => unknown;

export interface RouteEventOptions {
  readonly caller?: Caller;
  readonly signal?: AbortSignal;
}

export interface HostEventParts {
  readonly runtime: Runtime;
  readonly note: Note;
  readonly rules: () => RuleBook;
  readonly subscribers: Subscribers;
  readonly underWay: UnderWay;
  readonly depth: () => number | undefined;
  readonly within: (depth: number, work: () => unknown) => unknown;
}

const HANDLER_DEADLINE_MS = 60_000;
const RULES_NAMED = 20;

export function createHostEvents(parts: HostEventParts) {
  const { runtime, note, subscribers, underWay } = parts;
  const handlers = new Map<string, EventHandler>();

  async function handled(rule: CompiledRule, { event, depth }: Delivery, outer: AbortSignal | undefined) {
    const { to = "", deadlineMs = HANDLER_DEADLINE_MS, retry } = rule;
    const handler = handlers.get(to);
    if (handler === undefined) throw noHandler(rule, to);
    const what = `handler ${to}`;
    const late = () => new QmError("timed_out", `${what} did not end within ${deadlineMs} ms`);
    const options = { outer, cancelled: () => wasCancelled(what), deadlineMs, late };
    try {
      return await underWay.run(options, undefined, (course) => {
        const attempt = () => parts.within(depth, () => handler(event, course.signal));
        return inTries(course, attempt, { retry, onFailure: () => true });
      });
    } catch (thrown) {
      if (thrown instanceof QmError) throw thrown;
      throw new QmError("action_failed", `${what} failed: ${messageOf(thrown)}`, { cause: thrown });
    }
  }

  async function routeEvent(
    source: string,
    type: string,
    data: unknown,
    { caller, signal }: RouteEventOptions = {},
  ): Promise<RoutedEvent> {
    underWay.refuseWhenClosed();
    requireEvent(source, type);
    if (signal?.aborted) throw wasCancelled(type);
    const heading = { source, type, actor: caller?.actor, isPrivate: false };
    const delivery = deliveryOf(runtime, { heading, caller, rule: undefined }, data, nextDepth(parts.depth(), type));
    const { event } = delivery;
    const rule = parts.rules().first(source, type, () => hostFacts(event));
    const origin: Origin = { heading, caller, rule };
    const told = subscribers.matching(heading);
    noteRouted(note, event.id, origin, told.length);
    if (rule === undefined && told.length === 0) throw nobodyTakes(event, parts.rules().labels);
    for (const subscriber of told) subscriber.tell(delivery);
    const routed = { eventId: event.id, subscribers: told.length };
    if (rule === undefined) return routed;
    if (rule.to === undefined) return { ...routed, rule: rule.label };
    return { ...routed, rule: rule.label, to: rule.to, result: await handled(rule, delivery, signal) };
  }

  function handle(name: string, handler: EventHandler): () => void {
    if (typeof name !== "string" || name === "" || typeof handler !== "function")
      throw new QmError("invalid_arguments", "a handler has a name and is a function");
    if (handlers.has(name)) throw new QmError("conflict", `there is a handler ${JSON.stringify(name)} already`);
    // Of its own, so that taking it away twice cannot take away another that came after it.
    const entry: EventHandler = (event, signal) => handler(event, signal);
    handlers.set(name, entry);
    return () => {
      if (handlers.get(name) === entry) handlers.delete(name);
    };
  }

  return { routeEvent, handle };
}

/** No action is called, and of the actor only the name is known. */
function hostFacts({ source, type, data, caller }: RoutableEvent): RouteFacts {
  const { actor = "", session = "", turn = "", user = { id: "" }, person = "", tenant = "" } = caller ?? {};
  const ctx = { session, turn, user, person, tenant };
  return { event: { source, type, data }, tool: {}, actor: { name: actor, scope: "" }, ctx };
}

function nobodyTakes({ source, type }: RoutableEvent, labels: readonly string[]): QmError {
  const named = labels.slice(0, RULES_NAMED).join(", ") + (labels.length > RULES_NAMED ? ", ..." : "");
  return new QmError(
    "not_found",
    `no rule fits ${JSON.stringify(type)} from ${JSON.stringify(source)}, and nobody subscribed to it`,
    {
      hint: `A rule is missing. ${labels.length === 0 ? "There are none" : `There are: ${clip(named, 1000)}`}. Add one with useRules(), or subscribe().`,
    },
  );
}

function noHandler({ label }: CompiledRule, to: string): QmError {
  return new QmError("not_found", `routing ${label} sends to ${JSON.stringify(to)}, and no handler is called that`, {
    hint: `Register it with handle(${JSON.stringify(to)}, ...), or correct the rule.`,
  });
}

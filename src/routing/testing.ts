import { z } from "zod";
import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import type { QmError } from "../core/errors.ts";
import { eventShapes } from "../core/event-shapes.ts";
import { actionName } from "../core/names.ts";
import type { RoutedCall } from "./dispatch.ts";
import type { RoutingLedgerEvent } from "./event.ts";
import { createRouter, type RouterOptions } from "./router.ts";

export const caller: Caller = { actor: "triage", session: "s1" };

/** A router with what it wrote down and complained of. What does not have its event's shape is refused at once. */
export function testRouter(more: Partial<RouterOptions> = {}) {
  const notes: { readonly caller: Caller | undefined; readonly note: RoutingLedgerEvent }[] = [];
  const problems: string[] = [];
  let ids = 0;
  const router = createRouter({
    runtime: { now: () => new Date(0), elapsed: () => performance.now(), newId: () => `id-${++ids}` },
    record(caller, note) {
      z.strictObject(eventShapes[note.type].shape).parse(note.data);
      notes.push({ caller, note });
    },
    onProblem: (problem) => problems.push(problem),
    ...more,
  });
  const noted = (type: RoutingLedgerEvent["type"]) =>
    notes.filter(({ note }) => note.type === type).map(({ note }) => note.data);
  return { router, notes, noted, problems };
}

export function testAction(more: Partial<Action> = {}): Action {
  return {
    name: actionName("tool", more.entry ?? "look"),
    category: "tool",
    entry: "look",
    description: "Looks.",
    inputSchema: { type: "object" },
    effect: "read",
    tags: [],
    aliases: [],
    examples: [],
    scope: "generalist",
    routing: "routed",
    peerExposed: false,
    idempotent: false,
    run: () => undefined,
    ...more,
  };
}

export function testCall(action: Partial<Action> = {}, more: Partial<RoutedCall> = {}): RoutedCall {
  return { callId: "call-1", action: testAction(action), args: { sum: 7 }, caller, ...more };
}

export const readCode = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => "done",
    (thrown: QmError) => thrown.code,
  );

/** Until everything that was let go at once has been dealt with. */
export const waitForTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

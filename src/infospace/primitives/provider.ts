import { z } from "zod";
import { defineAction, extendAction, type Provider } from "../../catalog/define-action.ts";
import type { Action } from "../../core/action.ts";
import { SAY_LOGGER } from "../../core/caller.ts";
import { INFOSPACE } from "../resource-access.ts";
import { aggregateAction } from "./aggregate.ts";
import { applyAction } from "./apply.ts";
import { coerceAction } from "./coerce.ts";
import type { PrimitiveFactory } from "./derive.ts";
import { filterAction } from "./filter.ts";
import { flattenAction } from "./flatten.ts";
import { joinAction } from "./join.ts";
import { type MapPrimitiveOptions, mapAction } from "./map.ts";
import { pluckAction, projectAction } from "./project.ts";
import { searchActions } from "./search.ts";
import { setActions } from "./sets.ts";
import { sortAction } from "./sort.ts";
import { splitAction } from "./split.ts";
import { storageActions } from "./storage.ts";

/** The actions that work on notes and collections. */
export function createInfospaceProvider(parts: MapPrimitiveOptions): Provider {
  const reshaping = [applyAction, mapAction, coerceAction, splitAction, flattenAction, projectAction, pluckAction];
  const selecting = [filterAction, sortAction, joinAction, aggregateAction];
  const created = [
    ...storageActions(parts),
    ...[...reshaping, ...selecting].map((create) => create(parts)),
    ...[setActions, searchActions, messageActions].flatMap((create) => create(parts)),
  ];
  // Notes hold what a model may see, with redaction tokens. Only a message to a person gets the original values.
  const keepTokens = (action: Action) =>
    action.entry === "say" ? action : extendAction(action, { keepsTokens: true });
  const actions = created.map(keepTokens);
  const capability = "Store long results and work with them by their handles, without reading them whole.";
  return { category: INFOSPACE, capability, list: () => actions };
}

export const messageActions: PrimitiveFactory = ({ onSay }) => [
  defineAction(INFOSPACE, {
    entry: "say",
    description: "Tell the user something now, without waiting for the end of the turn.",
    // A message to a person leaves the system and cannot be taken back.
    effect: "external",
    input: z.lazy(() => z.strictObject({ value: createTextShape(20_000) })),
    examples: [{ args: { value: "Half of the invoices are checked." } }],
    run({ value }, { dialogue, caller, callId }) {
      dialogue?.log({ level: "info", logger: SAY_LOGGER, data: value });
      onSay?.(value, { caller, callId });
      return { said: true, shown: dialogue !== undefined || onSay !== undefined };
    },
  }),
  defineAction(INFOSPACE, {
    entry: "think",
    description: "Write down a thought. It is recorded and does nothing.",
    effect: "pure",
    idempotent: true,
    input: z.lazy(() => z.strictObject({ value: createTextShape(100_000) })),
    examples: [{ args: { value: "The totals differ, so a page must be missing." } }],
    run: () => ({ thought: true }),
  }),
];

function createTextShape(limit: number) {
  return z.string().refine((text) => /\S/.test(text) && text.length <= limit, `it is blank, or longer than ${limit}`);
}

import { z } from "zod";
import type { Provider } from "../../catalog/define-action.ts";
import { defineAction } from "../../catalog/define-action.ts";
import type { Action } from "../../core/action.ts";
import { INFOSPACE } from "../resource-access.ts";
import { aggregateActions } from "./aggregate.ts";
import type { PrimitiveFactory } from "./derive.ts";
import { fieldActions } from "./field-actions.ts";
import { reshapeActions } from "./reshape.ts";
import { applyActions, type MapPrimitiveOptions, mapActions } from "./run-actions.ts";
import { searchActions } from "./search.ts";
import { setActions } from "./sets.ts";
import { storageActions } from "./storage.ts";

function createTextShape(limit: number) {
  return z.string().refine((text) => /\S/.test(text) && text.length <= limit, `it is blank, or longer than ${limit}`);
}

/** Telling the user, and telling oneself. */
export const messageActions: PrimitiveFactory = () => [
  defineAction(INFOSPACE, {
    entry: "say",
    description: "Tell the user something now, without waiting for the end of the turn.",
    // What a person has read cannot be taken back, and it leaves this system.
    effect: "external",
    input: z.strictObject({ value: createTextShape(20_000) }),
    examples: [{ args: { value: "Half of the invoices are checked." } }],
    run({ value }, { dialogue }) {
      dialogue?.log({ level: "info", logger: "say", data: value });
      return { said: true, shown: dialogue !== undefined };
    },
  }),
  defineAction(INFOSPACE, {
    entry: "think",
    description: "Write down a thought. It is recorded and does nothing.",
    effect: "pure",
    idempotent: true,
    input: z.strictObject({ value: createTextShape(100_000) }),
    examples: [{ args: { value: "The totals differ, so a page must be missing." } }],
    run: () => ({ thought: true }),
  }),
];

/** What can be done with notes and collections without reading them. */
export function createInfospaceProvider(parts: MapPrimitiveOptions): Provider {
  const kinds = [
    storageActions,
    applyActions,
    mapActions,
    reshapeActions,
    fieldActions,
    aggregateActions,
    setActions,
    searchActions,
    messageActions,
  ];
  const actions = kinds.flatMap((make) => make(parts).map(keepTokens));
  return {
    category: INFOSPACE,
    capability: "keep, narrow, join and search long results by reference, without reading them",
    list: () => actions,
  };
}

/** What is kept is what the model may see, tokens and all. Only what is said to a person is filled in. */
function keepTokens(action: Action): Action {
  return action.entry === "say" ? action : Object.freeze({ ...action, keepsTokens: true });
}

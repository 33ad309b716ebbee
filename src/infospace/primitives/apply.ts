import { z } from "zod";
import { defineAction } from "../../catalog/define-action.ts";
import type { Action } from "../../core/action.ts";
import type { JsonObject } from "../../core/json.ts";
import { NAME_LIMIT } from "../../core/names.ts";
import { getModelData, toOutcomeError } from "../../core/outcome.ts";
import { summarizeResource } from "../preview.ts";
import { INFOSPACE } from "../resource-access.ts";
import { storeValue } from "../store-value.ts";
import { createPrimitiveAuthor, newNameShape, type PrimitiveOptions } from "./derive.ts";
import { streamMembers } from "./operation.ts";

export function applyAction({ infospace, previewLimit }: PrimitiveOptions): Action {
  return defineAction(INFOSPACE, {
    entry: "apply",
    description: "Run any action and keep its result as a note or a collection, however short. Answers its handle.",
    // The policy decides on the call. `apply` itself declares the strongest effect that the call can have.
    effect: "stateful",
    runsAction: { argument: "action" },
    input: z.lazy(() =>
      z.strictObject({
        action: z.string().min(1).max(NAME_LIMIT),
        args: z.record(z.string(), z.unknown()).default({}),
        name: newNameShape,
      }),
    ),
    examples: [{ args: { action: "web__fetch", args: { url: "https://example.com" }, name: "page" } }],
    async run({ action: asked, args, name }, context) {
      const outcome = await context.invoke(asked, args);
      if (outcome.status === "waiting") return undefined;
      if (outcome.status !== "done") throw toOutcomeError(outcome);
      const { signal } = context;
      const { action, kept: stored } = outcome;
      const maker = createPrimitiveAuthor(context, "apply");
      const data = getModelData(outcome);
      if (stored === undefined) {
        const made = await storeValue(data, { infospace, maker, previewLimit, name, signal });
        return { action, ...made.preview(previewLimit - JSON.stringify({ action }).length) };
      }
      // A streamed result is stored already. If a name was given, its notes are collected again under that name.
      if (name === undefined || stored.count === undefined) return { action, ...(data as JsonObject) };
      const collection = await infospace.collection(stored.handle, context.caller);
      const members = streamMembers(infospace.items(collection, { signal }));
      const named = await infospace.collect(maker, members, { name, signal });
      return { action, ...(data as JsonObject), ...summarizeResource(named) };
    },
  });
}

import { z } from "zod";
import { defineAction } from "../../catalog/define.ts";
import type { Action, CallContext } from "../../core/action.ts";
import { QmError } from "../../core/errors.ts";
import type { JsonObject } from "../../core/json.ts";
import { NAME_LIMIT } from "../../core/names.ts";
import { modelData, type Outcome } from "../../core/outcome.ts";
import type { Maker } from "../maker.ts";
import { put } from "../put.ts";
import { INFOSPACE } from "../resource.ts";
import { shownFacts } from "../shown.ts";
import { makerFor, newName } from "./deriving.ts";
import { membersFrom } from "./members.ts";
import type { PrimitiveParts, Primitives } from "./parts.ts";

/** Running other actions and keeping what they answer. */
export const computing: Primitives = (parts) => [apply(parts)];

function apply(parts: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "apply",
    description: "Run any action and keep its result as a note or a collection, however short. Answers its handle.",
    // What it runs is decided on by itself. Of itself it says the most that it can do, so that nobody takes it for reading.
    effect: "stateful",
    input: z.strictObject({
      action: z.string().min(1).max(NAME_LIMIT),
      args: z.record(z.string(), z.unknown()).default({}),
      name: newName,
    }),
    examples: [{ args: { action: "web__fetch", args: { url: "https://example.com" }, name: "page" } }],
    async run({ action, args, name }, context) {
      const outcome = await context.settled(await context.invoke(action, args));
      if (outcome.status !== "done") throw failure(outcome);
      return kept(parts, outcome, makerFor(context, "apply"), name, context);
    },
  });
}

/** What came bit by bit is kept already; with a name its notes are collected under that. */
async function kept(
  { infospace, previewLimit }: PrimitiveParts,
  outcome: Done,
  maker: Maker,
  name: string | undefined,
  { caller, signal }: CallContext,
): Promise<JsonObject> {
  const { action, kept: already } = outcome;
  if (already === undefined) {
    const made = await put(modelData(outcome), { infospace, maker, previewLimit, name, signal });
    return { action, ...made.shown(previewLimit - JSON.stringify({ action }).length) };
  }
  const shown = modelData(outcome) as JsonObject;
  if (name === undefined || already.count === undefined) return { action, ...shown };
  const collection = await infospace.collection(already.handle, caller);
  const members = membersFrom(infospace.items(collection, { signal }));
  return { action, ...shown, ...shownFacts(await infospace.collect(maker, members, { name, signal })) };
}

type Done = Extract<Outcome, { readonly status: "done" }>;

/** The same failure, as if it had been called by itself. */
function failure(outcome: Exclude<Outcome, Done>): QmError {
  if (outcome.status === "waiting") {
    const { id } = outcome.approval;
    return new QmError("conflict", `${outcome.action} waits for a person to agree: ${outcome.reason}`, {
      details: { approval_id: id },
    });
  }
  const { code, error, hint, ...details } = outcome.error;
  return new QmError(code, error, { ...(hint === undefined ? {} : { hint }), details, content: outcome.content });
}

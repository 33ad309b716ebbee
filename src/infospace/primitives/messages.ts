import { z } from "zod";
import { defineAction } from "../../catalog/define-action.ts";
import { INFOSPACE } from "../resource-access.ts";
import type { PrimitiveFactory } from "./derive.ts";

export const messageActions: PrimitiveFactory = () => [
  defineAction(INFOSPACE, {
    entry: "say",
    description: "Tell the user something now, without waiting for the end of the turn.",
    // A message to a person leaves the system and cannot be taken back.
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

function createTextShape(limit: number) {
  return z.string().refine((text) => /\S/.test(text) && text.length <= limit, `it is blank, or longer than ${limit}`);
}

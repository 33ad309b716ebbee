import { z } from "zod";
import { defineAction } from "../../catalog/define.ts";
import { INFOSPACE } from "../resource.ts";
import type { Primitives } from "./parts.ts";

function spoken(limit: number) {
  return z.string().refine((text) => /\S/.test(text) && text.length <= limit, `it is blank, or longer than ${limit}`);
}

/** Telling the user, and telling oneself. */
export const talking: Primitives = () => [
  defineAction(INFOSPACE, {
    entry: "say",
    description: "Tell the user something now, without waiting for the end of the turn.",
    // What a person has read cannot be taken back, and it leaves this system.
    effect: "external",
    input: z.strictObject({ value: spoken(20_000) }),
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
    input: z.strictObject({ value: spoken(100_000) }),
    examples: [{ args: { value: "The totals differ, so a page must be missing." } }],
    run: () => ({ thought: true }),
  }),
];

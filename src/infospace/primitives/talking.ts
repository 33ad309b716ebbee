import { z } from "zod";
import { defineAction } from "../../catalog/define.ts";
import { INFOSPACE } from "../resource.ts";
import type { Primitives } from "./parts.ts";

/** Telling somebody, and telling oneself. */
export const talking: Primitives = () => [
  defineAction(INFOSPACE, {
    entry: "say",
    description: "Tell the user something now, without waiting for the end of the turn.",
    // What a person has read cannot be taken back, and it leaves this system.
    effect: "external",
    input: z.object({
      value: z.string().regex(/\S/, "say something").max(20_000),
      target: z.string().min(1).max(200).default("user").describe("Who is told."),
    }),
    run({ value, target }, { dialogue }) {
      dialogue?.log({ level: "info", logger: "say", data: target === "user" ? value : { to: target, said: value } });
      return { said: true, to: target, heard: dialogue !== undefined };
    },
  }),
  defineAction(INFOSPACE, {
    entry: "think",
    description: "Write down a thought. It is recorded and does nothing.",
    effect: "pure",
    idempotent: true,
    input: z.object({ value: z.string().regex(/\S/, "think something").max(100_000) }),
    run: () => ({ thought: true }),
  }),
];

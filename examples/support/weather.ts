import { z } from "zod";
import { createQuartermaster } from "../../src/index.ts";

/** A quartermaster with one tool, shared by several examples. */
export const qm = await createQuartermaster();

qm.register({
  name: "weather",
  description: "Tell today's weather in a city.",
  inputSchema: z.object({ city: z.string(), unit: z.enum(["C", "F"]).default("C") }),
  effect: "read",
  scope: "generalist",
  handler: ({ city, unit }) => ({ city, degrees: unit === "C" ? 21 : 70 }),
});

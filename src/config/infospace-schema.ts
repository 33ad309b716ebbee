import { z } from "zod";
import { time } from "./approvals-schema.ts";
import { whole } from "./values.ts";

export const infospaceSchema = z
  .strictObject({
    enabled: z
      .boolean()
      .default(true)
      .describe("Whether long results are kept and can be handled by reference. `false`: they are cut."),
    expires_in: time().default("24h").describe("How long what nobody saves is kept."),
    preview_chars: whole(300, 100_000)
      .default(1_200)
      .describe("How much of what is kept a model is shown: its shape and the first of it."),
    fill_chars: whole(1_024, 67_108_864)
      .default(4_194_304)
      .describe("How long arguments may be once handles in them are filled in."),
  })
  .prefault({})
  .describe("Notes and collections: where long results go, and what can be done with them unread.");

import { z } from "zod";
import { time } from "./approvals-schema.ts";
import { whole } from "./values.ts";

const MIB = 1024 * 1024;

function limits(notes: number, bytes: number, rows: number) {
  return z
    .strictObject({
      notes: whole(0).default(notes).describe("Notes and collections."),
      bytes: whole(0)
        .default(bytes)
        .describe("Contents, in every kept version, and 256 more for each note and collection."),
      rows: whole(0)
        .default(rows)
        .describe("Rows that say what collections hold; notes that were kept in one go are one row for each thousand."),
    })
    .prefault({});
}

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
    quota: z
      .strictObject({
        session: limits(500_000, 256 * MIB, 500_000).describe("Of one session of one user."),
        user: limits(2_000_000, 1024 * MIB, 2_000_000).describe(
          "Of one user of a tenant; callers without a user are one together.",
        ),
        tenant: limits(4_000_000, 2048 * MIB, 4_000_000).describe(
          "Of one tenant; callers without a tenant are one together.",
        ),
      })
      .prefault({})
      .describe("How much may be kept. A write that would pass a limit is refused with `quota_exceeded`."),
  })
  .prefault({})
  .describe("Notes and collections: where long results go, and what can be done with them unread.");

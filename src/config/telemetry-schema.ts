import { z } from "zod";

/** What others are told of calls while they happen. */
export const telemetrySchema = z
  .strictObject({
    enabled: z
      .boolean()
      .default(false)
      .describe("Whether calls are told to the OpenTelemetry SDK that the process was started with."),
    content: z
      .boolean()
      .default(false)
      .describe("Whether arguments, results and error texts are told, too, with secrets taken out as in the ledger."),
  })
  .prefault({})
  .describe("OpenTelemetry spans and metrics. Off, nothing of it is loaded.");

import type { jsonSchemaValidator } from "@modelcontextprotocol/client";
import { isRecord } from "../../core/json.ts";

/**
 * In place of the SDK's engine, which compiles every schema of a server at once and runs its patterns unguarded. It lets
 * everything pass: the door checks results against their schema already, in bounded time, and once is enough.
 */
export const passAll: jsonSchemaValidator = {
  getValidator: () => (input) => ({ valid: true, data: input as never, errorMessage: undefined }),
};

/** A result schema for requests whose result is wanted as it came. */
export const anyResult = {
  "~standard": {
    version: 1 as const,
    vendor: "quartermaster",
    validate: (value: unknown) =>
      isRecord(value) ? { value } : { issues: [{ message: "expected an object as the result" }] },
  },
};

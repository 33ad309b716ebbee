import { messageOf, QmError } from "../core/errors.ts";

/** A record as it leaves. Throws `invalid_output` for what is not JSON. */
export function jsonTextOf(record: unknown): string {
  try {
    return JSON.stringify(record) ?? "null";
  } catch (thrown) {
    throw new QmError("invalid_output", `a result with annotations is not JSON: ${messageOf(thrown)}`, {
      hint: "This is a fault of the action.",
    });
  }
}

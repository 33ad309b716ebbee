import { getErrorMessage } from "../../core/errors.ts";
import { clip, isRecord } from "../../core/json.ts";
import { findPart, type OpenApiObject } from "./read-document.ts";

/** The checker follows every reference again, so a small document can mean endless work. */
const EXPANDED_PARTS = 3_000_000;

/** What is wrong with a document by the rules of OpenAPI. Undefined: it is too large to be checked. */
export async function findDocumentProblems(document: OpenApiObject): Promise<readonly string[] | undefined> {
  try {
    if (countExpandedParts(document) > EXPANDED_PARTS) return undefined;
    const { validate } = await import("@readme/openapi-parser");
    // Neither files nor addresses: the document is complete. The checker changes what it is given.
    const copy = structuredClone(document) as unknown as Parameters<typeof validate>[0];
    const result = await validate(copy, { resolve: { external: false, file: false } });
    const found = result.valid ? result.warnings : [...result.errors, ...result.warnings];
    return found.map(({ message }) => clip(message.split("\n", 1)[0]?.trim() ?? "", 200));
  } catch (thrown) {
    // The stack is too small for the chains of references in it.
    if (thrown instanceof RangeError) return undefined;
    return [clip(getErrorMessage(thrown).split("\n", 1)[0] ?? "", 200)];
  }
}

/** The parts of a document if each reference is replaced by what it names, except inside of itself. */
function countExpandedParts(document: OpenApiObject): number {
  const counts = new Map<object, number>();
  const count = (part: unknown): number => {
    if (typeof part !== "object" || part === null) return 1;
    const known = counts.get(part);
    if (known !== undefined) return known;
    counts.set(part, 1);
    let sum = 1;
    for (const inner of Object.values(part)) sum += count(inner);
    const reference = isRecord(part) ? part.$ref : undefined;
    if (typeof reference === "string") sum += count(findPart(document, reference));
    counts.set(part, Math.min(sum, Number.MAX_SAFE_INTEGER));
    return sum;
  };
  return count(document);
}

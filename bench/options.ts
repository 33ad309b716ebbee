import { parseArgs } from "node:util";

/** What every bench can be told: one of its parts alone, a short run, one JSON document. Throws for a part it has not. */
export function benchOptions(parts: readonly string[]) {
  const { values } = parseArgs({
    options: {
      only: { type: "string" },
      quick: { type: "boolean", default: false },
      json: { type: "boolean", default: false },
    },
  });
  if (values.only !== undefined && !parts.includes(values.only))
    throw new Error(`--only is one of ${parts.join(", ")}`);
  return values;
}

import { parseArgs } from "node:util";

/** The options of every bench: a single part, a quick run, output as one JSON document. Throws for an unknown part. */
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

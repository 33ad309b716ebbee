import { z } from "zod";
import { defineAction } from "../../catalog/define.ts";
import type { Action } from "../../core/action.ts";
import { QmError } from "../../core/errors.ts";
import { aggregate } from "../operations/aggregate.ts";
import { measureKinds } from "../operations/tally.ts";
import { parsePath } from "../path.ts";
import { INFOSPACE } from "../resource.ts";
import { collected, DERIVES, DERIVING_MS, openSource, pathShape, resultName } from "./deriving.ts";
import type { PrimitiveParts, Primitives } from "./parts.ts";
import { targetShape } from "./target.ts";

/** Figures about items. */
export const aggregating: Primitives = (parts) => [aggregateAction(parts)];

const MOST_GROUPS = 100_000;
const MOST_PATHS = 20;

/** A single one may be given as it is. */
const paths = z.array(pathShape).optional();

function aggregateAction(parts: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "aggregate",
    description:
      "Group the items by the values at paths, count them and sum fields: one record for each group, as a new collection. Without by: one for all.",
    aliases: ["infospace__group-by", "infospace__distinct", "infospace__count"],
    effect: DERIVES,
    timeoutMs: DERIVING_MS,
    handleArguments: ["target"],
    input: z.strictObject({
      target: targetShape,
      by: paths.describe("Paths such as status."),
      sum: paths,
      mean: paths,
      min: paths,
      max: paths,
      limit: z.int().min(1).max(MOST_GROUPS).default(10_000),
      name: resultName,
    }),
    examples: [{ args: { target: "collection__7", by: ["status"], sum: ["amount"] } }],
    async run({ target, by = [], limit, name, ...asked }, context) {
      const measures = measureKinds.flatMap((kind) =>
        (asked[kind] ?? []).map((path) => ({ kind, path: parsePath(path) })),
      );
      const grouped = by.map(parsePath);
      if (grouped.length + measures.length > MOST_PATHS) {
        throw new QmError("invalid_arguments", `there are ${grouped.length + measures.length} paths`, {
          hint: `Give ${MOST_PATHS} at most, in several calls.`,
        });
      }
      const source = await openSource(parts, target, context);
      const made = aggregate(source.inputs, { by: grouped, measures, limit });
      return collected(parts, context, { entry: "aggregate", name, from: [source] }, made);
    },
  });
}

import { z } from "zod";
import { getOwn, isRecord } from "../core/json.ts";
import { formatKeyPath, type KeyPath } from "../core/yaml.ts";
import { embedderClass } from "./discovery-schema.ts";
import { parseFileValue } from "./file-keys.ts";
import { HOT_LIST_LIMIT, integer } from "./schema-values.ts";

export const actionRetrievalSchema = z
  .strictObject({
    universalWrappersEnabled: z
      .boolean()
      .optional()
      .describe("Another name for `surface.kind`: `true` is `universal`, `false` is `flat`."),
    embeddingClass: embedderClass.optional().describe("Another name for `search.embedder.class`."),
    hotListN: integer(0, HOT_LIST_LIMIT).optional().describe("Another name for `surface.hot_list_n`."),
  })
  .prefault({})
  .describe("Other names for some keys of `surface` and `search`. Set each value once, under one of its names.");

interface OtherName {
  readonly key: string;
  readonly target: KeyPath;
  toValue(value: unknown): unknown;
}

const SECTION = "action_retrieval";
const otherNames: readonly OtherName[] = [
  {
    key: "universal_wrappers_enabled",
    target: ["surface", "kind"],
    toValue: (isEnabled) => (isEnabled ? "universal" : "flat"),
  },
  { key: "embedding_class", target: ["search", "embedder", "class"], toValue: (value) => value },
  { key: "hot_list_n", target: ["surface", "hot_list_n"], toValue: (value) => value },
];

/** The file's value with each setting of `action_retrieval` under its own name too. An invalid section changes nothing. */
export function applyActionRetrieval(value: unknown): unknown {
  return listSettings(value).reduce<unknown>(
    (root, { target, value: wanted }) =>
      readValue(root, target) === undefined ? setValue(root, target, wanted) : root,
    value,
  );
}

/** The settings that have another value under their own name. */
export function findRetrievalConflicts(value: unknown): readonly { readonly at: KeyPath; readonly message: string }[] {
  return listSettings(value).flatMap(({ key, target, value: wanted }) => {
    const own = readValue(value, target);
    // The schema reports a list or a mapping there.
    if (own === undefined || own === wanted || (typeof own === "object" && own !== null)) return [];
    const name = formatKeyPath(target);
    const message = `means ${name}: ${wanted}, but ${name} is ${own}; set only one of the two`;
    return [{ at: [SECTION, key], message }];
  });
}

function listSettings(root: unknown) {
  const section = isRecord(root) ? getOwn(root, SECTION) : undefined;
  if (!isRecord(section) || !parseFileValue(actionRetrievalSchema, section).success) return [];
  return otherNames.flatMap(({ key, target, toValue }) => {
    const value = getOwn(section, key);
    return value === undefined ? [] : [{ key, target, value: toValue(value) }];
  });
}

function readValue(root: unknown, path: KeyPath): unknown {
  return path.reduce<unknown>((at, key) => (isRecord(at) ? getOwn(at, String(key)) : undefined), root);
}

/** A copy with the value set. Something on the way that is no mapping stays: the schema reports it. */
function setValue(root: unknown, [key, ...rest]: KeyPath, value: unknown): unknown {
  if (key === undefined) return value;
  if (root !== undefined && !isRecord(root)) return root;
  return { ...root, [key]: setValue(root && getOwn(root, String(key)), rest, value) };
}

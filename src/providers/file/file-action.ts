import { defineAction } from "../../catalog/define-action.ts";
import type { Action } from "../../core/action.ts";
import type { InputSchema } from "../../core/standard-schema.ts";
import { type FileRoot, normalizeFilePath } from "./file-root.ts";

/** Defines an action on one path below the root. Policies see the normalized path. */
export function defineFileAction<Schema extends InputSchema>(
  root: FileRoot,
  { tags = [], ...declared }: Omit<Parameters<typeof defineAction<Schema>>[1], "normalize" | "idempotent">,
): Action {
  const { category, actions = {} } = root.category;
  return defineAction<Schema>(category, {
    ...declared,
    ...actions[declared.entry],
    idempotent: declared.effect === "read",
    tags: ["file", declared.effect, ...tags],
    normalize: { path: (path) => normalizeFilePath(root, path) },
  });
}

import { type Action, type ActionOrigin, getActionOrigin, summarizeAction } from "../core/action.ts";
import { omitUndefined } from "../core/json.ts";
import { formatSignature } from "../surface/signature.ts";

/** One action as an operator sees it. */
export interface InventoryItem extends Pick<Action, "name" | "category" | "effect" | "tags" | "scope">, ActionOrigin {
  readonly summary: string;
  /** The worlds it belongs to. Absent: it is a core action. */
  readonly worlds?: readonly string[];
  /** The arguments on one line: `(path: string, limit?: integer)`. */
  readonly schema_hint: string;
  /** `file:line` of a registered tool. */
  readonly site?: string;
}

export function toInventoryItem(action: Action, worlds: readonly string[]): InventoryItem {
  const { name, category, effect, tags, scope, site } = action;
  return {
    ...{ name, category, effect, tags, scope, summary: summarizeAction(action) },
    ...getActionOrigin(action),
    ...(worlds.length > 0 && { worlds }),
    schema_hint: formatSignature(action),
    ...omitUndefined({ site }),
  };
}

/** A skill as a caller may have it with all its files. A call of its action with `file` and `base64` returns one. */
export interface UsableSkill
  extends Required<Pick<Action, "name" | "entry" | "description" | "files">>,
    Pick<Action, "world"> {}

/** Undefined for an action without files. */
export function toUsableSkill({ name, entry, description, files, world }: Action): UsableSkill | undefined {
  return files && { name, entry, description, files, ...omitUndefined({ world }) };
}

/** An action that other agents may call. */
export interface ExposedAction extends Pick<Action, "name" | "description" | "tags" | "examples" | "localActor"> {
  /** The arguments on one line: `(path: string, limit?: integer)`. */
  readonly signature: string;
}

export function toExposedAction(action: Action): ExposedAction {
  const { name, description, tags, examples, localActor } = action;
  return { name, description, tags, examples, signature: formatSignature(action), ...omitUndefined({ localActor }) };
}

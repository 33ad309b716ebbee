import { quoteName } from "../core/names.ts";

/** A path such as `email`, `owner.phone`, `items[].price`, `[].id`, or `["first.name"]` for a name with a dot. */
export type FieldPath = string;

export const ITEMS = Symbol("items");

export type FieldPathStep = string | typeof ITEMS;

const PATH_LIMIT = 512;
const STEP = /\[\]|\[("(?:[^"\\]|\\.)*")\]|(\.?)([^.[\]"\p{Cc}]+)/uy;

/** Returns undefined if the path is invalid. */
export function parseFieldPath(path: unknown): readonly FieldPathStep[] | undefined {
  if (typeof path !== "string" || path === "" || path.length > PATH_LIMIT) return undefined;
  const steps: FieldPathStep[] = [];
  STEP.lastIndex = 0;
  while (STEP.lastIndex < path.length) {
    const found = STEP.exec(path);
    if (found === null) return undefined;
    const [text, written, dot, name] = found;
    if (name !== undefined && ((dot === "") !== (steps.length === 0) || name !== name.trim())) return undefined;
    const step = text === "[]" ? ITEMS : (name ?? parseQuoted(written));
    if (step === undefined) return undefined;
    steps.push(step);
  }
  return steps;
}

function parseQuoted(written: string | undefined): string | undefined {
  try {
    return JSON.parse(written ?? "") as string;
  } catch {
    return undefined;
  }
}

export const describeInvalidPath = (path: unknown): { readonly message: string; readonly hint: string } => ({
  message: `${quoteName(String(path))} is not the path of a field`,
  hint: 'Write names with dots between them and [] for the items of a list: email, owner.phone, items[].price, ["first.name"].',
});

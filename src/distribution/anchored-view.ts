import type { QmError } from "../core/errors.ts";
import { canonicalJson, type Json } from "../core/json.ts";
import type { Runtime } from "../core/runtime.ts";
import type { AnchorStore } from "./anchor-store.ts";
import { braced, newToken } from "./anchor-token.ts";
import { ITEMS, parsePath } from "./field-path.ts";
import { ownProblem } from "./own-problem.ts";
import type { Rule, RuleNode } from "./rules.ts";
import { ABSENT, cut, treatment } from "./view.ts";

/** A value with tokens in place of what is anchored. */
export interface AnchoredView {
  readonly view: Json;
  /** As they stand in the view, with braces. */
  readonly tokens: ReadonlySet<string>;
  /** Why something that should have a token is missing instead. */
  readonly problem?: QmError;
}

interface AnchoredViewParts {
  readonly store: Pick<AnchorStore, "put">;
  readonly owner: string;
  readonly newId: Runtime["newId"];
  /** Values that get a token; one beyond is hidden. */
  readonly limit: number;
}

/** Characters of one anchored value; a longer one is hidden. */
const VALUE_LIMIT = 65_536;

const ATTEMPTS = 3;

/** What a model is shown, once its tokens are kept. Rejects when the store does. */
export async function anchoredView(value: Json, rules: RuleNode, parts: AnchoredViewParts): Promise<AnchoredView> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const issued = issuer(parts);
    const view = cut(value, rules, treatment(issued.anchor));
    const { values, problem } = issued.result();
    if (values.size > 0 && !(await parts.store.put(parts.owner, values))) continue;
    const tokens = new Set([...values.keys()].map(braced));
    return { view, tokens, ...(problem === undefined ? {} : { problem }) };
  }
  throw ownProblem("conflict", "every token that was made is taken");
}

function issuer({ newId, limit }: AnchoredViewParts) {
  const known = new Map<string, string>();
  const values = new Map<string, string>();
  let hidden = 0;
  return {
    anchor(value: Json, rule: Rule): string | typeof ABSENT {
      const json = canonicalJson(value);
      const key = `${rule.path}\n${json}`;
      const before = known.get(key);
      if (before !== undefined) return before;
      if (values.size >= limit || json.length > VALUE_LIMIT) {
        hidden++;
        return ABSENT;
      }
      const token = newToken(labelOf(rule), newId);
      known.set(key, braced(token));
      values.set(token, json);
      return braced(token);
    },
    result() {
      const problem = ownProblem(
        "too_large",
        `${hidden} anchored values are hidden: there are more than ${limit}, or one has over ${VALUE_LIMIT} characters`,
      );
      return { values, problem: hidden === 0 ? undefined : problem };
    },
  };
}

function labelOf({ label, path }: Rule): string {
  const names = parsePath(path)?.filter((step) => step !== ITEMS);
  return label ?? names?.at(-1) ?? "";
}

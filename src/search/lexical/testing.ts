import { defineAction } from "../../catalog/define-action.ts";
import type { Action, Example } from "../../core/action.ts";
import type { JsonObject } from "../../core/json.ts";
import { createHitOrder, type HitOptions, type Searchable } from "../hits.ts";
import { createLexicalIndex, type LexicalIndex, type LexicalResult } from "./lexical-index.ts";

export interface TestActionFacts {
  readonly description?: string;
  readonly effect?: Action["effect"];
  readonly tags?: readonly string[];
  readonly aliases?: readonly string[];
  readonly properties?: JsonObject;
  readonly examples?: readonly Example[];
}

/** An action with this whole name. */
export function action(name: string, facts: TestActionFacts | string = {}): Action {
  const {
    properties = {},
    description = "",
    effect = "read",
    ...rest
  } = typeof facts === "string" ? { description: facts } : facts;
  const cut = name.indexOf("__");
  return defineAction(name.slice(0, cut), {
    entry: name.slice(cut + 2),
    description,
    effect,
    input: { type: "object", properties },
    ...rest,
    run: () => null,
  });
}

export function createTestView(actions: readonly Action[], hidden: readonly Action[] = []): Searchable {
  const seen = actions.filter((each) => !hidden.includes(each));
  return { snapshot: { actions }, sees: (each) => !hidden.includes(each), actions: () => seen };
}

type Some = Partial<HitOptions> & { readonly hidden?: readonly Action[]; readonly index?: LexicalIndex };

export function find(
  actions: readonly Action[],
  query: string,
  { hidden = [], index, ...some }: Some = {},
): LexicalResult {
  const options = { limit: 10, order: createHitOrder(), ...some };
  return (index ?? createLexicalIndex(actions)).search(query, createTestView(actions, hidden), options);
}

/** The names that are found, best first. */
export function names(actions: readonly Action[], query: string, some?: Some): readonly string[] {
  return find(actions, query, some).hits.map((hit) => hit.action.name);
}

import type { Action } from "../core/action.ts";
import { effectRank } from "../core/effect.ts";
import { QmError } from "../core/errors.ts";
import { getOwn } from "../core/json.ts";
import { NAME_LIMIT, parseActionName, quoted, SEPARATOR } from "../core/names.ts";
import { categoryRedirects } from "./redirects.ts";
import { isReservedName, withoutNamespace, wordsOf } from "./spelling.ts";
import { suggestions } from "./suggest.ts";
import { effectAsked } from "./verbs.ts";
import type { View } from "./view.ts";

export interface Resolved {
  readonly action: Action;
  /** `exact`: the name itself; `alias`: another name it has; `respelled`: the only one made of the same words. */
  readonly how: "exact" | "alias" | "respelled";
}

/**
 * The action a caller means by `asked`, out of what the caller may see. Throws `unknown_action` when there is none or
 * more than one; a hidden action and one that does not exist answer alike, because nothing here knows of hidden ones.
 */
export function resolve(view: View, asked: string): Resolved {
  const exact = view.get(asked);
  if (exact !== undefined) return { action: exact, how: "exact" };
  if (isReservedName(asked)) throw unknownAction(view, asked);
  const alias = onlyOne(aliasesOf(view, asked));
  if (alias !== undefined) return { action: alias, how: "alias" };
  const respelled = onlyOne(respellings(view, asked));
  if (respelled !== undefined) return { action: respelled, how: "respelled" };
  throw unknownAction(view, asked);
}

/** The structured answer to a name that leads nowhere. */
function unknownAction(view: View, asked: string): QmError {
  const found = asked.length > NAME_LIMIT ? [] : suggestions(view, asked);
  return new QmError("unknown_action", `Unknown action ${quoted(asked)}`, {
    details: {
      reason:
        parseActionName(asked) === undefined
          ? "It is not written as <category>__<entry>."
          : "No action of that name is available to you.",
      suggestions: found.map((action) => action.name),
    },
    hint:
      found.length > 0
        ? "Use one of the suggestions, search for the name, or browse with list_actions."
        : "Search for the name, or browse with list_actions(category=[...]).",
  });
}

function aliasesOf(view: View, asked: string): readonly Action[] {
  const declared = view.snapshot.spellings.aliased(asked).filter(view.sees);
  if (declared.length > 0) return declared;
  const at = asked.indexOf(SEPARATOR);
  const category = at < 0 ? undefined : getOwn(categoryRedirects, asked.slice(0, at));
  const moved = category === undefined ? undefined : view.get(category + asked.slice(at));
  return moved === undefined ? [] : [moved];
}

function respellings(view: View, asked: string): readonly Action[] {
  if (asked.length > NAME_LIMIT) return [];
  const words = wordsOf(withoutNamespace(asked));
  if (words.length === 0) return [];
  return view.snapshot.spellings.sameWords(words).filter((action) => view.sees(action) && keepsEffect(action, words));
}

/**
 * Whether running `action` for a name written with these words stays within what was asked for. The same words in the
 * same order are the same name in other clothes; anything looser must not turn looking into changing.
 */
function keepsEffect(action: Action, words: readonly string[]): boolean {
  const spelt = words.join(" ");
  if (spelt === wordsOf(action.name).join(" ") || spelt === wordsOf(action.entry).join(" ")) return true;
  return effectRank(action.effect) <= effectRank(effectAsked(words));
}

function onlyOne(actions: readonly Action[]): Action | undefined {
  return actions.length === 1 ? actions[0] : undefined;
}

import type { Hit } from "./hit.ts";
import type { PatternOptions } from "./regex.ts";
import type { Searchable } from "./searchable.ts";

/** For what is called so is meant more than what is only labelled so. */
const BESIDE = 0.9;

/** The visible actions of which the query is the name, an alias, the whole description or a tag, whatever the case. */
export function exactSearch(
  query: string,
  view: Searchable,
  { limit, order, accepts = () => true }: PatternOptions,
): readonly Hit[] {
  const asked = query.trim().toLowerCase();
  if (asked === "") return [];
  const hits: Hit[] = [];
  for (const action of view.actions()) {
    const { name, entry, aliases, tags, description } = action;
    const is = (text: string): boolean => couldBe(text, asked) && text.toLowerCase() === asked;
    const score = is(name) || is(entry) || aliases.some(is) ? 1 : tags.some(is) || is(description.trim()) ? BESIDE : 0;
    if (score > 0 && accepts(action)) hits.push({ action, score });
  }
  return hits.sort(order).slice(0, limit);
}

/** By its length, without the cost of another case: a character in lower case is as long as before, or twice (İ). */
function couldBe({ length }: string, { length: lowered }: string): boolean {
  return length <= lowered && lowered <= 2 * length;
}

import type { Hit } from "./hit.ts";
import type { PatternOptions } from "./regex.ts";
import type { Searchable } from "./searchable.ts";

/** The visible actions of which the query is the whole name, an alias, the whole description or a tag, whatever the case. */
export function exactSearch(
  query: string,
  view: Searchable,
  { limit, order, accepts = () => true }: PatternOptions,
): readonly Hit[] {
  const asked = query.trim().toLowerCase();
  if (asked === "") return [];
  const hits: Hit[] = [];
  for (const action of view.actions()) {
    const { name, aliases, tags, description } = action;
    const is = (text: string): boolean => text.toLowerCase() === asked;
    if ((is(name) || aliases.some(is) || tags.some(is) || is(description.trim())) && accepts(action)) {
      hits.push({ action, score: 1 });
    }
  }
  return hits.sort(order).slice(0, limit);
}

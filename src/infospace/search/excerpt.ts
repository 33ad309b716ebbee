const ELLIPSIS = "…";
const WORDS = 32;
const PLACES = 500;
/** What stands before the first word of the query, so that it can be read in a sentence. */
const LEAD = 40;

/** The part of a passage that has the most words of a query, in at most `limit` characters. */
export function excerpt(passage: string, query: string, limit: number): string {
  if (passage.length <= limit) return passage;
  const room = Math.max(1, limit - 2 * ELLIPSIS.length);
  const start = wordBegin(passage, Math.min(bestStart(passage, query, room), passage.length - room));
  const part = wholeCharacters(passage.slice(start, start + room));
  return `${start > 0 ? ELLIPSIS : ""}${part}${start + part.length < passage.length ? ELLIPSIS : ""}`;
}

function bestStart(passage: string, query: string, room: number): number {
  const places = placesOf(passage.toLowerCase(), query);
  let best = { start: 0, words: 0 };
  for (const [index, { at }] of places.entries()) {
    const words = new Set<string>();
    for (let next = index; next < places.length; next++) {
      const place = places[next];
      if (place === undefined || place.at + place.word.length > at + room - LEAD) break;
      words.add(place.word);
    }
    if (words.size > best.words) best = { start: Math.max(0, at - LEAD), words: words.size };
  }
  return best.start;
}

function placesOf(text: string, query: string): readonly { readonly at: number; readonly word: string }[] {
  const words = new Set(
    query
      .toLowerCase()
      .slice(0, 2_000)
      .match(/[\p{L}\p{N}\p{M}]{2,}/gu)
      ?.slice(0, WORDS),
  );
  const places: { at: number; word: string }[] = [];
  for (const word of words) {
    for (let at = text.indexOf(word); at >= 0 && places.length < PLACES; at = text.indexOf(word, at + word.length)) {
      places.push({ at, word });
    }
  }
  return places.sort((a, b) => a.at - b.at);
}

function wordBegin(text: string, at: number): number {
  if (at === 0) return 0;
  const border = text.slice(at, at + LEAD).search(/\s\S/);
  return border < 0 ? at : at + border + 1;
}

/** Without the half of a character at either end. */
function wholeCharacters(text: string): string {
  return text.replace(/^[\uDC00-\uDFFF]|[\uD800-\uDBFF]$/g, "");
}

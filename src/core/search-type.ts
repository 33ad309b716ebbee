/**
 * - `fts`: by words, ranked
 * - `regex`: a regular expression over names, descriptions and tags
 * - `exact`: the whole name, alias, description or a tag, whatever the case
 * - `semantic`: by meaning, where an embedder is there
 * - `hybrid`: by words and by meaning, the two lists made one
 */
export const searchTypes = ["fts", "regex", "exact", "semantic", "hybrid"] as const;

export type SearchType = (typeof searchTypes)[number];

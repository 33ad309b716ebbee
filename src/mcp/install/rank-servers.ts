import type { StoredServerSummary } from "./registry-store.ts";

/** The score is from 0 to 1, comparable within one search. */
export type RankedServer = { readonly server: StoredServerSummary; readonly score: number };

export interface IndexedServer {
  readonly server: StoredServerSummary;
  readonly name: string;
  readonly fields: readonly { readonly weight: number; readonly words: ReadonlySet<string> }[];
}

export function indexServerWords(server: StoredServerSummary): IndexedServer {
  const [space = "", own = server.name] = server.name.split("/", 2);
  return {
    server,
    name: server.name.toLowerCase(),
    fields: [
      { weight: 3, words: new Set(splitWords(own)) },
      { weight: 3, words: new Set(splitWords(server.title)) },
      { weight: 1.5, words: new Set(splitWords(server.description)) },
      { weight: 1, words: new Set(splitWords(space)) },
    ],
  };
}

/**
 * Ranks the servers that match the text. Rare words weigh more than frequent ones, words of the name and title more
 * than those of the description, whole words more than prefixes. An empty text matches all servers, sorted by name.
 */
export function rankServers(servers: readonly IndexedServer[], text: string): readonly RankedServer[] {
  const asked = [...new Set(splitWords(text))].slice(0, 24);
  if (asked.length === 0) {
    const all = servers.map(({ server }) => ({ server, score: 0 }));
    return text.trim() === "" ? all.sort(compareNames) : [];
  }
  const points = asked.map((word) => servers.map((server) => scoreWord(word, server)));
  const worth = points.map((found) => Math.log(1 + servers.length / (1 + found.filter((one) => one > 0).length)));
  const most = worth.reduce((sum, one) => sum + one, 0) * FULL_SCORE || 1;
  const wanted = text.trim().toLowerCase();
  const ranked = servers.flatMap((words, at) => {
    const sum = points.reduce((total, found, word) => total + (found[at] ?? 0) * (worth[word] ?? 0), 0);
    if (sum === 0) return [];
    const met = points.filter((found) => (found[at] ?? 0) > 0).length / asked.length;
    const score = words.name === wanted ? 1 : Math.min(0.999, (sum / most) * met);
    return [{ server: words.server, score: Math.round(score * 1000) / 1000 }];
  });
  return ranked.sort((a, b) => b.score - a.score || compareNames(a, b));
}

/** The score of a word that is in every field. */
const FULL_SCORE = 4.5;

function scoreWord(word: string, { fields, name }: IndexedServer): number {
  // One character is a word in scripts without spaces.
  const isTelling = word.length >= 3 || !ASCII.test(word);
  let points = 0;
  for (const { weight, words } of fields) {
    if (words.has(word)) points += weight;
    else if (isTelling && hasSimilarWord(words, word)) points += weight * 0.5;
  }
  // Names often join words without a separator.
  return points === 0 && isTelling && name.includes(word) ? 0.5 : points;
}

function hasSimilarWord(words: ReadonlySet<string>, asked: string): boolean {
  for (const word of words) {
    if (word.startsWith(asked) || (word.length >= 4 && asked.startsWith(word))) return true;
    if (word.length > asked.length && !ASCII.test(asked) && word.includes(asked)) return true;
  }
  return false;
}

const ASCII = /^[ -~]*$/;

function compareNames(a: RankedServer, b: RankedServer): number {
  return a.server.name < b.server.name ? -1 : a.server.name > b.server.name ? 1 : 0;
}

/** `dbPassword`, `db-password` → `db`, `password`, and the first also as a whole. Plurals become singular. */
function splitWords(text: string): readonly string[] {
  return text
    .normalize("NFKC")
    .split(/[^\p{L}\p{M}\p{N}]+/u)
    .flatMap((run) => {
      const parts = run.split(/(?<=[a-z])(?=[A-Z])/);
      return parts.length === 1 ? parts : [run, ...parts];
    })
    .map((word) => word.toLowerCase())
    .filter((word) => word !== "" && !STOP_WORDS.has(word))
    .map((word) => (/[^s]s$/.test(word) && word.length > 3 && ASCII.test(word) ? word.slice(0, -1) : word));
}

/** Words that nearly every server and query has. */
const STOP_WORDS = new Set(
  "a an and are as at by can for from i in is it mcp me my of on or server servers that the to which with".split(" "),
);

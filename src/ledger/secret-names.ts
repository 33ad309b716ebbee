// Lower-case names join words (`accesstoken`), so some words count at the end of others. `tokens` alone is a count.
const SECRET =
  /(?:apikey|authorization|passphrase|passwd|password|secret|token) | (?:cookies?|credentials?|passwords|pwd|secrets) | (?:access|account|api|auth|encryption|private|signing) keys? | (?:access|api|auth|bearer|id|refresh|session) tokens /;

// `token_count`, `secretName` and `password_url` describe a secret and are not one.
const DESCRIPTION =
  / (?:at|budget|cost|count|endpoint|expiration|expires|expiry|file|length|limit|names?|path|policy|price|size|ttl|types?|uri|url|usage|used) $/;

const NAME_LIMIT = 256;
const CACHE_LIMIT = 1000;

/** Tests whether a field of a name holds a secret. `names` adds to the built-in ones, in any spelling. */
export function createSecretNameMatcher(names: readonly string[] = []): (name: string) => boolean {
  const own = names.map(splitWords);
  const isSecret = (name: string): boolean => {
    const words = splitWords(name);
    return own.some((wanted) => words.includes(wanted)) || (!DESCRIPTION.test(words) && SECRET.test(words));
  };
  // Every event has the same few names.
  const cache = new Map<string, boolean>();
  return (name) => {
    if (name.length > NAME_LIMIT) return isSecret(name.slice(0, NAME_LIMIT));
    const known = cache.get(name) ?? isSecret(name);
    if (cache.size === CACHE_LIMIT) cache.clear();
    cache.set(name, known);
    return known;
  };
}

/** `dbPassword1`, `DB_PASSWORD`, `db-password` → ` db password `. */
function splitWords(name: string): string {
  const spaced = name.replace(/([a-z0-9])([A-Z])/g, "$1 $2").replace(/([A-Z])([A-Z][a-z])/g, "$1 $2");
  return ` ${spaced
    .toLowerCase()
    .replace(/[^\p{L}]+/gu, " ")
    .trim()} `;
}

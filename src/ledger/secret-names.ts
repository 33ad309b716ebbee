const secretWords = splitList(
  "apikey authorization cookie cookies credential credentials passphrase passwd password passwords pwd secret secrets token",
);

// Lower-case names join words: `accesstoken`, `clientsecret`.
const secretEndings = splitList("apikey authorization passphrase passwd password secret token");

// `tokens` alone is a count of model tokens; `access tokens` are secrets.
const secretPhrases = [
  ...splitList("access account api auth encryption private signing").flatMap((kind) => [
    ` ${kind} key `,
    ` ${kind} keys `,
  ]),
  ...splitList("access api auth bearer id refresh session").map((kind) => ` ${kind} tokens `),
];

// `token_count`, `secretName` and `password_url` describe a secret and are not one.
const describingWords = splitList(
  "at budget cost count endpoint expiration expires expiry file length limit name names path policy price size ttl type types uri url usage used",
);

const NAME_LIMIT = 256;
const CACHE_LIMIT = 1000;

/** Tests whether a field of a name holds a secret. `names` adds to the built-in ones, in any spelling. */
export function createSecretNameMatcher(names: readonly string[] = []): (name: string) => boolean {
  const own = names.map((name) => joinPhrase(splitWords(name)));
  // Every event has the same few names.
  const cache = new Map<string, boolean>();
  return (name) => {
    if (name.length > NAME_LIMIT) return hasSecretWord(splitWords(name.slice(0, NAME_LIMIT)), own);
    let isSecret = cache.get(name);
    if (isSecret === undefined) {
      isSecret = hasSecretWord(splitWords(name), own);
      if (cache.size === CACHE_LIMIT) cache.clear();
      cache.set(name, isSecret);
    }
    return isSecret;
  };
}

function hasSecretWord(words: readonly string[], own: readonly string[]): boolean {
  const phrase = joinPhrase(words);
  if (own.some((wanted) => phrase.includes(wanted))) return true;
  if (describingWords.includes(words.at(-1) ?? "")) return false;
  return (
    words.some((word) => secretWords.includes(word) || secretEndings.some((ending) => word.endsWith(ending))) ||
    secretPhrases.some((secret) => phrase.includes(secret))
  );
}

function joinPhrase(words: readonly string[]): string {
  return ` ${words.join(" ")} `;
}

/** `dbPassword1`, `DB_PASSWORD`, `db-password` → `db`, `password`. */
function splitWords(name: string): readonly string[] {
  const spaced = name.replace(/([a-z0-9])([A-Z])/g, "$1 $2").replace(/([A-Z])([A-Z][a-z])/g, "$1 $2");
  return splitList(
    spaced
      .toLowerCase()
      .replace(/[^\p{L}]+/gu, " ")
      .trim(),
  );
}

function splitList(text: string): readonly string[] {
  return text.split(" ");
}

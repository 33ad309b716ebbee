const secretWords = splitList(
  "apikey authorization cookie cookies credential credentials passphrase passwd password passwords pwd secret secrets token",
);

// In lower-case names the words run together: `accesstoken`, `clientsecret`.
const secretEndings = splitList("apikey authorization passphrase passwd password secret token");

const secretKeys = splitList("access account api auth encryption private signing").flatMap((kind) => [
  joinPhrase([kind, "key"]),
  joinPhrase([kind, "keys"]),
]);

// `tokens` alone is what models count; these are not.
const secretTokens = splitList("access api auth bearer id refresh session").map((kind) => joinPhrase([kind, "tokens"]));

// `token_count`, `secretName`, `password_url` tell something about a secret; they are none.
const describingWords = splitList(
  "at budget cost count endpoint expiration expires expiry file length limit name names path policy price size ttl type types uri url usage used",
);

/** Whether a field of this name holds a secret. `names` are meant beside the usual ones, in any spelling. */
export function createSecretNameMatcher(names: readonly string[] = []): (name: string) => boolean {
  const own = names.map((name) => joinPhrase(splitWords(name)));
  // The same few names come by in every event.
  const judged = new Map<string, boolean>();
  return (name) => {
    if (name.length > NAME_LIMIT) return hasSecretWord(splitWords(name.slice(0, NAME_LIMIT)), own);
    const known = judged.get(name);
    if (known !== undefined) return known;
    if (judged.size === REMEMBERED_LIMIT) judged.clear();
    const verdict = hasSecretWord(splitWords(name), own);
    judged.set(name, verdict);
    return verdict;
  };
}

const NAME_LIMIT = 256;
const REMEMBERED_LIMIT = 1000;

function hasSecretWord(words: readonly string[], own: readonly string[]): boolean {
  const phrase = joinPhrase(words);
  if (own.some((wanted) => phrase.includes(wanted))) return true;
  if (describingWords.includes(words.at(-1) ?? "")) return false;
  return (
    words.some((word) => secretWords.includes(word) || secretEndings.some((ending) => word.endsWith(ending))) ||
    [...secretKeys, ...secretTokens].some((words) => phrase.includes(words))
  );
}

function joinPhrase(words: readonly string[]): string {
  return ` ${words.join(" ")} `;
}

/** `dbPassword1`, `DB_PASSWORD`, `db-password` → `db`, `password`. */
function splitWords(name: string): readonly string[] {
  return name
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .replace(/([A-Z])([A-Z][a-z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^\p{L}]+/u)
    .filter((word) => word !== "");
}

function splitList(text: string): readonly string[] {
  return text.split(" ");
}

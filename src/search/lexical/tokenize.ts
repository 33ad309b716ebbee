import { stemmer } from "stemmer";

export interface LexicalWord {
  readonly written: string;
  /** In lower case, without accents, not stemmed. */
  readonly plain: string;
  /** Stemmed parts: one for a plain word, several for `createIssue`, overlapping pairs for Japanese or Chinese. */
  readonly terms: readonly string[];
  /** The parts as one word, so that `GitHub` matches `github`. */
  readonly whole?: string;
}

const LONGEST = 64;
const LONGEST_UNSPACED = 4_000;

export function tokenize(text: string): readonly LexicalWord[] {
  const words: LexicalWord[] = [];
  for (const written of text.match(WORD) ?? []) {
    // A loop is cheaper here than a spread of short lists.
    for (const word of analyseCached(written)) words.push(word);
  }
  return words;
}

// An apostrophe belongs to the word, so that its ending can be dropped: user's, don't.
const WORD = /[\p{L}\p{N}\p{M}]+(?:['’][\p{L}\p{M}]+)*/gu;
// Texts have few different words, and analysing one costs more than a lookup.
const cache = new Map<string, readonly LexicalWord[]>();
const CACHE_LIMIT = 50_000;

function analyseCached(written: string): readonly LexicalWord[] {
  if (written.length > LONGEST) return analyse(written.slice(0, LONGEST_UNSPACED));
  let words = cache.get(written);
  if (words === undefined) {
    words = analyse(written);
    if (cache.size >= CACHE_LIMIT) cache.clear();
    cache.set(written, words);
  }
  return words;
}

function analyse(written: string): readonly LexicalWord[] {
  const runs = written
    .replace(ENDING, "")
    .split(/['’]/)
    .flatMap((piece) => foldAccents(piece).match(SAME_SCRIPT) ?? []);
  return runs.map((run) => {
    const own = runs.length === 1 ? written : run;
    return UNSPACED.test(run)
      ? { written: own, plain: run, terms: splitPairs(run) }
      : analyseSpaced(own, run.slice(0, LONGEST));
  });
}

const ENDING = /['’](?:s|t|d|m|re|ve|ll)$/iu;
// Scripts that put no spaces between words.
const unspaced = String.raw`\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Hang}\p{sc=Thai}\p{sc=Laoo}\p{sc=Khmr}\p{sc=Mymr}\u30fc\u3005`;
const UNSPACED = new RegExp(`[${unspaced}]`, "u");
const SAME_SCRIPT = new RegExp(`[${unspaced}]+|[^${unspaced}]+`, "gu");

function splitPairs(run: string): readonly string[] {
  const characters = [...run];
  if (characters.length === 1) return characters;
  return characters.slice(1).map((character, index) => `${characters[index]}${character}`);
}

function analyseSpaced(written: string, run: string): LexicalWord {
  const plain = run.toLowerCase();
  const parts = run.replace(HUMP, "$& ").toLowerCase().split(" ").flatMap(splitDigits);
  const whole = stemWord(plain);
  if (parts.length === 1) return { written, plain, terms: [whole] };
  return { written, plain, terms: parts.map(stemWord), whole };
}

/** The letter before a capital that begins a word: create|Issue, HTTP|Server. */
const HUMP = /\p{Ll}(?=\p{Lu})|\p{Lu}(?=\p{Lu}\p{Ll})/gu;

/** `area51` → area, 51. Short ones such as `s3`, `k8s` and `v2` are words of their own. */
function splitDigits(part: string): readonly string[] {
  const [, letters, digits] = /^(\p{L}{3,})(\p{N}+)$/u.exec(part) ?? [];
  return letters === undefined || digits === undefined ? [part] : [letters, digits];
}

export const stemWord = (word: string): string => (/^[a-z]{3,}$/.test(word) ? stemmer(word) : word);

/** Removes compatibility forms and accents: ｆ → f, é → e. Keeps marks that make another letter, as in が. */
function foldAccents(text: string): string {
  if (/^[\w']*$/.test(text)) return text;
  return text
    .normalize("NFKD")
    .replace(/[\u0300-\u036f]/g, "")
    .normalize("NFC")
    .replace(/[ßøłđæœıØŁĐÆŒ]/g, (letter) => PLAIN.get(letter.toLowerCase()) ?? letter);
}

/** Plain spellings of letters that are not a letter with an accent. */
const PLAIN = new Map(Object.entries({ ß: "ss", ø: "o", ł: "l", đ: "d", æ: "ae", œ: "oe", ı: "i" }));

// Verbs of names and requests, by kind. A question asks to read.
const verbGroups = [
  `get list show read fetch retrieve view find search query lookup describe check count browse inspect display tell give
  see explore enumerate know status detail info track monitor what which how who where when many much is are does any`,
  `create add new insert make generate build register provision open book schedule write draft compose upload import
  start begin`,
  `update edit modify change set rename adjust patch configure assign move alter replace enable disable increase
  decrease turn resize`,
  "delete remove erase destroy drop clear cancel revoke uninstall purge terminate unassign detach stop end",
];

let verbKinds: ReadonlyMap<string, number> | undefined;
const VERB_TEXT_LIMIT = 1_000;

/** The kinds of verbs in a text, one bit each. */
export function detectVerbs(text: string): number {
  verbKinds ??= new Map(
    verbGroups.flatMap((verbs, index) => verbs.split(/\s+/).map((verb) => [stemWord(verb), 1 << index] as const)),
  );
  let found = 0;
  for (const { terms } of tokenize(text.slice(0, VERB_TEXT_LIMIT))) {
    for (const term of terms) found |= verbKinds.get(term) ?? 0;
  }
  return found;
}

export const stopWords: ReadonlySet<string> = new Set(
  `a an the this that these those there here it its i me my mine myself we us our ours you your yours he him his she her
  hers they them their theirs who whom whose which what when where why how is am are was were be been being do does did
  doing done have has had having can could would should will shall may might must and or but nor if then than so as of at
  by for with about into to from in because while until during although though also just only even very really too
  please kindly hello hi hey thanks thank let lets im ive id ill youre theyre dont don doesnt cant wont isnt whats want
  wants wanted need needs needed like wish trying try looking look help hoping able some any each such own same
  other`.split(/\s+/),
);

/** Words that are seldom the subject of a request, but part of some names. */
export const particles: ReadonlySet<string> = new Set(
  `on off up down out over under again more most all both between before after through within without against no
  not`.split(/\s+/),
);

export const softWords: ReadonlySet<string> = new Set(
  `get give show tell find provide make use using used specific current currently information info detail details know
  see go going take check available based related given following including include new one two first recommend suggest
  api tool tools function functions model data best good great different various latest way ways thing things something
  anything time etc via per called named name names`.split(/\s+/),
);

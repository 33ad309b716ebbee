import { stemmer } from "stemmer";

/** A word as it was written, and what it is found by. */
export interface Word {
  readonly written: string;
  /** In lower case and without accents, endings still on. */
  readonly plain: string;
  /** Its parts, stemmed: one for a plain word, several for `createIssue`, overlapping pairs for Japanese or Chinese. */
  readonly terms: readonly string[];
  /** For a word of several parts, all of them as one, so that `GitHub` and `github` meet. */
  readonly whole?: string;
}

const LONGEST = 64;
const LONGEST_UNSPACED = 4_000;

/** The words of a text, whatever its language, with case, accents and endings taken off what they are found by. */
export function wordsIn(text: string): readonly Word[] {
  const words: Word[] = [];
  for (const written of text.match(WORD) ?? []) {
    // Most are plain words met before; a loop costs less than handing over a list of one.
    for (const word of analysed(written)) words.push(word);
  }
  return words;
}

// An apostrophe belongs to the word, so that what stands after it can be dropped: user's, don't.
const WORD = /[\p{L}\p{N}\p{M}]+(?:['’][\p{L}\p{M}]+)*/gu;

// Texts are made of few different words; taking one apart costs more than remembering it.
const known = new Map<string, readonly Word[]>();
const KNOWN_AT_MOST = 50_000;

function analysed(written: string): readonly Word[] {
  if (written.length > LONGEST) return analyse(written.slice(0, LONGEST_UNSPACED));
  let words = known.get(written);
  if (words === undefined) {
    words = analyse(written);
    if (known.size >= KNOWN_AT_MOST) known.clear();
    known.set(written, words);
  }
  return words;
}

function analyse(written: string): readonly Word[] {
  const runs = written
    .replace(ENDING, "")
    .split(/['’]/)
    .flatMap((piece) => folded(piece).match(SAME_SCRIPT) ?? []);
  return runs.map((run) => {
    const own = runs.length === 1 ? written : run;
    return UNSPACED.test(run) ? { written: own, plain: run, terms: pairs(run) } : spaced(own, run.slice(0, LONGEST));
  });
}

const ENDING = /['’](?:s|t|d|m|re|ve|ll)$/iu;

// Scripts that put no spaces between words.
const unspaced = String.raw`\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Hang}\p{sc=Thai}\p{sc=Laoo}\p{sc=Khmr}\p{sc=Mymr}ー々`;
const UNSPACED = new RegExp(`[${unspaced}]`, "u");
const SAME_SCRIPT = new RegExp(`[${unspaced}]+|[^${unspaced}]+`, "gu");

function pairs(run: string): readonly string[] {
  const characters = [...run];
  if (characters.length === 1) return characters;
  return characters.slice(1).map((character, index) => `${characters[index]}${character}`);
}

function spaced(written: string, run: string): Word {
  const plain = run.toLowerCase();
  const parts = run.replace(HUMP, "$& ").toLowerCase().split(" ").flatMap(withoutDigits);
  const whole = stemOf(plain);
  if (parts.length === 1) return { written, plain, terms: [whole] };
  return { written, plain, terms: parts.map(stemOf), whole };
}

/** The last letter before a capital that begins a word: create|Issue, HTTP|Server. */
const HUMP = /\p{Ll}(?=\p{Lu})|\p{Lu}(?=\p{Lu}\p{Ll})/gu;

/** `area51` → area, 51. Short ones such as `s3`, `k8s` and `v2` are words of their own. */
function withoutDigits(part: string): readonly string[] {
  const [, letters, digits] = /^(\p{L}{3,})(\p{N}+)$/u.exec(part) ?? [];
  return letters === undefined || digits === undefined ? [part] : [letters, digits];
}

/** What a word has in common with its other forms. `word` is in lower case. */
export function stemOf(word: string): string {
  return /^[a-z]{3,}$/.test(word) ? stemmer(word) : word;
}

/** Compatibility forms and accents taken off: ｆ → f, é → e. Marks that make another letter, as in が, stay. */
function folded(text: string): string {
  if (/^[\w']*$/.test(text)) return text;
  return text
    .normalize("NFKD")
    .replace(/[\u0300-\u036f]/g, "")
    .normalize("NFC")
    .replace(/[ßøłđæœıØŁĐÆŒ]/g, (letter) => PLAIN.get(letter.toLowerCase()) ?? letter);
}

/** Letters that are not an accent on another one, and are written without as these. */
const PLAIN = new Map(Object.entries({ ß: "ss", ø: "o", ł: "l", đ: "d", æ: "ae", œ: "oe", ı: "i" }));

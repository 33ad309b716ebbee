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

/** The words of a text, whatever its language, with case, accents and endings taken off what they are found by. */
export function wordsIn(text: string): readonly Word[] {
  const words: Word[] = [];
  for (const [written] of text.matchAll(WORD)) words.push(...analysed(written));
  return words;
}

// An apostrophe belongs to the word, so that what stands after it can be dropped: user's, don't.
const WORD = /[\p{L}\p{N}\p{M}]+(?:['’][\p{L}\p{M}]+)*/gu;

// Texts are made of few different words; taking one apart costs more than remembering it.
const known = new Map<string, readonly Word[]>();
const KNOWN_AT_MOST = 50_000;

function analysed(written: string): readonly Word[] {
  const before = known.get(written);
  if (before !== undefined) return before;
  const words = written.length > LONGEST ? analyse(written.slice(0, LONGEST)) : analyse(written);
  if (known.size >= KNOWN_AT_MOST) known.clear();
  known.set(written, words);
  return words;
}

function analyse(written: string): readonly Word[] {
  const words: Word[] = [];
  for (const piece of withoutEnding(written).split(/['’]/)) {
    for (const [run] of folded(piece).matchAll(SAME_SCRIPT)) {
      // What the letters look like decides; the user is told the word as it came.
      const own = run.length === written.length ? written : run;
      if (UNSPACED.test(run)) words.push({ written: own, plain: run, terms: pairs(run) });
      else words.push(...spaced(own, run));
    }
  }
  return words;
}

function withoutEnding(written: string): string {
  return written.replace(/['’](?:s|t|d|m|re|ve|ll)$/iu, "");
}

// Scripts that put no spaces between words.
const UNSPACED =
  /[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Hang}\p{sc=Thai}\p{sc=Laoo}\p{sc=Khmr}\p{sc=Mymr}\u30fc\u3005]/u;
const SAME_SCRIPT = new RegExp(`${UNSPACED.source.slice(0, -1)}]+|[^${UNSPACED.source.slice(1, -1)}]+`, "gu");

function pairs(run: string): readonly string[] {
  const characters = [...run.toLowerCase()];
  if (characters.length === 1) return characters;
  return characters.slice(1).map((character, index) => `${characters[index]}${character}`);
}

function spaced(written: string, run: string): readonly Word[] {
  const parts = run
    .replace(/(\p{Ll})(\p{Lu})|(\p{Lu})(?=\p{Lu}\p{Ll})/gu, (_, low, high, initial) =>
      initial === undefined ? `${low} ${high}` : `${initial} `,
    )
    .toLowerCase()
    .split(" ")
    .flatMap(withoutDigits);
  const plain = run.toLowerCase();
  const whole = stemOf(plain);
  if (parts.length === 1) return [{ written, plain, terms: [whole] }];
  return [{ written, plain, terms: parts.map(stemOf), whole }];
}

/** `area51` → area, 51. Short ones such as `s3`, `k8s` and `v2` are words of their own. */
function withoutDigits(part: string): readonly string[] {
  return /^\p{L}{3,}\p{N}+$/u.test(part) ? (part.match(/\p{L}+|\p{N}+/gu) ?? [part]) : [part];
}

/** What a word has in common with its other forms. `word` is in lower case. */
export function stemOf(word: string): string {
  return /^[a-z]{3,}$/.test(word) ? stemmer(word) : word;
}

/** Compatibility forms and accents taken off: ｆ → f, é → e. Marks that make another letter, as in が, stay. */
function folded(text: string): string {
  if (/^[\0-\x7f]*$/.test(text)) return text;
  return text
    .normalize("NFKD")
    .replace(/[\u0300-\u036f]/g, "")
    .normalize("NFC")
    .replace(/[ßøłđæœıØŁĐÆŒ]/g, (letter) => PLAIN.get(letter) ?? letter);
}

const PLAIN = new Map(Object.entries({ ß: "ss", ø: "o", ł: "l", đ: "d", æ: "ae", œ: "oe", ı: "i" }));
for (const [letter, plain] of [...PLAIN]) PLAIN.set(letter.toUpperCase(), plain);

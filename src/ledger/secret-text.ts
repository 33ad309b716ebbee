import { secretPrefixes } from "./secret-prefixes.ts";

/** Stands where a secret was. */
export const REDACTED = "[redacted]";

// Shorter ones would be found everywhere in innocent text.
const SHORTEST_SECRET = 6;

// What looks like a secret; where there is a group, which is always last, it alone is the secret. They are run on text
// from anywhere, so each takes time in proportion to it: where a long repetition can fail, no match can start inside it.
const shapes: readonly RegExp[] = [
  /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|$)/g,
  /(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}(?:\.[\w-]*)?/g,
  /\bbearer\s{1,4}([a-z._~+/=-]*\d[\w.~+/=-]*|[\w.~+/=-]{20,})/gi,
  /(?<![A-Za-z0-9])(?:sk-[\w-]{16,}|[rs]k_(?:live|test)_\w{10,}|gh[opusr]_\w{16,}|github_pat_\w{16,})/g,
  /(?<![A-Za-z0-9])(?:xox[abeprs]-[\w-]{8,}|glpat-[\w-]{10,}|npm_\w{30,}|AIza[\w-]{30,}|(?:AKIA|ASIA)[A-Z0-9]{16}(?!\w))/g,
  /:\/\/([^\s/?#:@"'<>]*:[^\s/?#"'<>]+)(?=@)/g,
  /authorization\\?["']?\s{0,3}[=:]\s{0,3}([^\r\n"',;]+)/gi,
  /(?:password|passwd|passphrase|secret|token|api[_-]?key|private[_-]?key|access[_-]?key)\\?["']?\s{0,3}[=:]\s{0,3}("(?:[^"\\]|\\.)+"?|\\"[^"\\]+|'[^']+'?|[^\s"'\\&,;)}\]]+)/gi,
  /(?<![A-Za-z])accountkey\s{0,3}=\s{0,3}([A-Za-z0-9+/=]{16,})/gi,
  /[?&;](?:x-amz-|x-goog-)?(?:sig|signature)=([^&\s"'<>]{16,})/gi,
  /(?<![\w-])(?:set-)?cookie\\?["']?\s{0,3}:\s{0,3}([^\s=;,"']{1,128}=[^\r\n"']+)/gi,
  /(?<!\d)\d{5,16}:A[\w-]{34}(?![\w-])/g,
];

/** How far behind its program an option is looked for. */
const LINE = 300;

/** Options that secrets stand behind, of programs; each is looked for only in a text that names the program. */
const options: readonly (readonly [program: string, RegExp])[] = [
  ["curl", option("curl", "(?:-u|--user|--proxy-user)", "[ =]?(?!['\"]?\\d+:\\d+\\b)", "[^\\s:'\"]{1,128}:")],
  ["curl", option("curl", "(?:-b|--cookie)", "[ =]?", "[^\\s='\"]{1,128}=")],
  ["mysql", option("mysql(?:dump|admin|import)?", "-p")],
  ["mariadb", option("mariadb(?:-dump|-admin)?", "-p")],
  ["sshpass", option("sshpass", "-p", " ?")],
  ["docker login", option("docker login", "-p", "[ =]?")],
  ["redis-cli", option("redis-cli", "-a", " ")],
];

/** The value of an option in the same command as the program. It begins as `start` says. */
function option(program: string, name: string, between = "", start = ""): RegExp {
  const value = `("${start}(?:[^"\\\\]|\\\\.)+"?|'${start}[^']+'?|${start}[^\\s"'\\\\;|&]+)`;
  // The program is looked for after its option was found: that is rare, and looking back is slow.
  return new RegExp(`(?<=\\s)${name}(?<=\\b${program}\\b[^\\n;|&]{0,${LINE}})${between}${value}`, "g");
}

interface Prefixed {
  readonly any: RegExp;
  readonly rests: ReadonlyMap<string, RegExp>;
}

/** Compiled with the first text that could hold one. */
let prefixed: Prefixed | undefined;
const SHORTEST_PREFIXED = 20;

/** Secrets as they are written in text: plain, inside a JSON string, inside a URL. */
export function writtenForms(secrets: Iterable<string>): readonly string[] {
  const forms = new Set<string>();
  for (const secret of secrets) {
    if (secret.length < SHORTEST_SECRET) continue;
    forms.add(secret);
    forms.add(JSON.stringify(secret).slice(1, -1));
    forms.add(encodeURIComponent(secret.replace(/\p{Surrogate}/gu, "\uFFFD")));
  }
  return [...forms];
}

/** The first `limit` characters, redacted. No part of a secret is left over where the text is cut. */
export function redactForms(text: string, forms: readonly string[], limit: number): string {
  const seen = text.length <= limit ? text : text.slice(0, limit + lookahead(forms));
  const spans = secretSpans(seen, forms);
  if (spans.length === 0 && text.length <= limit) return text;
  let redacted = "";
  let at = 0;
  for (const [start, end] of spans) {
    if (start >= limit) break;
    if (end <= at) continue;
    if (start >= at) redacted += seen.slice(at, start) + REDACTED;
    at = end;
  }
  if (at < limit) redacted += seen.slice(at, limit);
  if (text.length <= limit) return redacted;
  const whole = redacted.replace(/[\uD800-\uDBFF]$/, "");
  return `${whole}… [cut: ${text.length} characters in all]`;
}

type Span = readonly [start: number, end: number];

/** Where in a text there are secrets: those given, and what looks like one. In order; they may overlap. */
export function secretSpans(text: string, forms: readonly string[]): readonly Span[] {
  const spans: Span[] = [];
  for (const shape of shapes) {
    shape.lastIndex = 0;
    // Not matchAll: it copies the expression each time, and this runs for every text of every event.
    for (let match = shape.exec(text); match !== null; match = shape.exec(text)) {
      const secret = match[1] ?? match[0];
      spans.push([shape.lastIndex - secret.length, shape.lastIndex]);
    }
  }
  for (const [program, shape] of options) {
    if (!text.includes(program)) continue;
    shape.lastIndex = 0;
    for (let match = shape.exec(text); match !== null; match = shape.exec(text))
      spans.push([shape.lastIndex - (match[1] ?? "").length, shape.lastIndex]);
  }
  if (text.length >= SHORTEST_PREFIXED) spans.push(...prefixedSpans(text));
  for (const form of forms) {
    for (let at = text.indexOf(form); at >= 0; at = text.indexOf(form, at + 1)) spans.push([at, at + form.length]);
  }
  return spans.sort(([a], [b]) => a - b);
}

function prefixedSpans(text: string): readonly Span[] {
  prefixed ??= compilePrefixes();
  const { any, rests } = prefixed;
  const spans: Span[] = [];
  any.lastIndex = 0;
  for (let match = any.exec(text); match !== null; match = any.exec(text)) {
    const rest = rests.get(match[0]);
    if (rest === undefined) continue;
    rest.lastIndex = any.lastIndex;
    if (!rest.test(text)) continue;
    spans.push([match.index, rest.lastIndex]);
    any.lastIndex = rest.lastIndex;
  }
  return spans;
}

/** One expression for all the prefixes: most texts have none, and are done with after it. */
function compilePrefixes(): Prefixed {
  const texts = secretPrefixes.map(([prefix]) => prefix.replace(/[./]/g, "\\$&"));
  return {
    any: new RegExp(`(?<![A-Za-z0-9])(?:${texts.join("|")})`, "g"),
    rests: new Map(secretPrefixes.map(([prefix, rest]) => [prefix, new RegExp(rest, "y")])),
  };
}

const LONGEST_SHAPE = 4096;

function lookahead(forms: readonly string[]): number {
  return forms.reduce((longest, { length }) => Math.max(longest, length), LONGEST_SHAPE);
}

/*
 * The prefixes and lengths below are taken from the rules of gitleaks (https://github.com/gitleaks/gitleaks,
 * config/gitleaks.toml at b58d3f1), cut down to those that begin with a fixed text and rewritten so that each is
 * searched for by that text. gitleaks is under this licence:
 *
 * MIT License
 *
 * Copyright (c) 2019 Zachary Rice
 *
 * Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
 * documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
 * rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
 * persons to whom the Software is furnished to do so, subject to the following conditions:
 *
 * The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
 * Software.
 *
 * THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
 * WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
 * COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
 * OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
 */

import type { KnownSecret } from "../core/known-secret.ts";

/** Starts of services' tokens and patterns of the rest, which match or fail after a fixed number of characters. */
export const secretPrefixes: readonly (readonly [prefixes: string, rest: string])[] = [
  ["A3-", "[A-Z0-9]{6}-[A-Z0-9]{6,11}-[A-Z0-9]{5}-[A-Z0-9]{5}(?:-[A-Z0-9]{5}){0,2}"],
  ["ABSK", "[A-Za-z0-9+/]{109,269}"],
  ["AGE-SECRET-KEY-1", "[A-Z0-9]{58}"],
  ["AKCp", "[A-Za-z0-9]{69}"],
  ["API-", "[A-Z0-9]{26}(?!\\w)"],
  ["CLOJARS_", "[a-z0-9]{60}"],
  ["EAAC EAAM", "[A-Za-z0-9]{100,}"],
  ["EZAK EZTK", "[A-Za-z0-9]{54}"],
  ["FLWSECK_TEST-", "[a-h0-9]{12,}"],
  ["GR1348941 gldt- glffct- glft- glsoat-", "[\\w-]{20,}"],
  ["HRKU-AA", "[\\w-]{58}"],
  ["LTAI", "[A-Za-z0-9]{20}(?!\\w)"],
  ["PMAK-", "[A-Fa-f0-9]{24}-[A-Fa-f0-9]{34}"],
  ["SG.", "[\\w=-]{16,}\\.[\\w=-]{16,}"],
  ["api_org_", "[A-Za-z0-9]{34,}"],
  ["bedrock-api-key-", "[A-Za-z0-9+/=]{20,}"],
  ["cmVmd", "[A-Za-z0-9]{59}(?!\\w)"],
  ["dapi", "[a-f0-9]{32}"],
  ["discord.com/api/webhooks/", "\\d{17,20}/[\\w-]{60,80}"],
  ["doo_v1_ dop_v1_ dor_v1_ s-s4t2af- s-s4t2ud- sntryu_", "[a-f0-9]{64}"],
  ["dp.pt.", "[A-Za-z0-9]{43}"],
  ["dt0c01.", "[A-Za-z0-9]{24}\\.[A-Za-z0-9]{64}"],
  ["duffel_live_ duffel_test_", "[\\w=-]{43}"],
  ["fio-u-", "[\\w=-]{64}"],
  ["fm1a_ fm1r_ fm2_", "[A-Za-z0-9+/]{100,}={0,3}"],
  ["fo1_ sha256~", "[\\w-]{43}"],
  ["glagent- pypi-AgEIcHlwaS5vcmc", "[\\w-]{50,}"],
  ["glc_", "[A-Za-z0-9+/]{32,}={0,3}"],
  ["glcbt-", "\\w{1,5}_[\\w-]{20,}"],
  ["glimt-", "[\\w-]{25,}"],
  ["gloas-", "[\\w-]{64,}"],
  ["glptt- pul-", "[a-f0-9]{40}"],
  ["glrt-", "[\\w.-]{20,}"],
  ["glsa_", "[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}"],
  ["hf_", "[A-Za-z0-9]{30,}"],
  ["hooks.slack.com/services/ hooks.slack.com/triggers/ hooks.slack.com/workflows/", "[A-Za-z0-9+/]{40,}"],
  ["hvb.", "[\\w-]{100,}"],
  ["hvs.", "[\\w-]{80,}"],
  ["ico-", "[A-Za-z0-9]{32}(?!\\w)"],
  ["lin_api_", "[A-Za-z0-9]{40}"],
  ["ntn_", "\\d{11}[A-Za-z0-9]{35}"],
  ["ops_eyJ", "[A-Za-z0-9+/]{200,}={0,3}"],
  ["p8e-", "[A-Za-z0-9]{32}"],
  ["pat. sat.", "[\\w-]{22}\\.[A-Za-z0-9]{24}\\.[A-Za-z0-9]{20}"],
  ["pnu_", "[A-Za-z0-9]{36}"],
  ["pplx-", "[A-Za-z0-9]{48}"],
  ["pscale_oauth_ pscale_pw_ pscale_tkn_", "[\\w=.-]{32,}"],
  ["rdme_", "[a-z0-9]{70}"],
  ["rubygems_", "[a-f0-9]{48}"],
  ["sgp_", "(?:[A-Fa-f0-9]{16}_|local_)?[A-Fa-f0-9]{40}"],
  ["shippo_live_ shippo_test_", "[A-Fa-f0-9]{40}"],
  ["shpat_ shpca_ shppa_ shpss_", "[A-Fa-f0-9]{32}"],
  ["sm_aat_ sm_pat_ sm_sat_", "[A-Za-z0-9]{16}"],
  ["sntrys_", "[\\w+/=-]{40,}"],
  ["sq0atp-", "[\\w-]{22,}"],
  ["tfp_", "[\\w.=-]{59}"],
  ["tk-us-", "[\\w-]{48}"],
  ["xapp-", "\\d-[A-Za-z0-9]{8,16}-\\d{8,16}-[A-Za-z0-9]{20,}"],
  ["xkeysib-", "[a-f0-9]{64}-[A-Za-z0-9]{16}"],
  ["xoxe.xox", "[bp]-\\d-[A-Za-z0-9]{100,}"],
  // Access tokens of Google, which gitleaks does not list.
  ["ya29.", "[\\w-]{20,}"],
];

export const REDACTED_TEXT = "[redacted]";

/** Shorter secrets would match harmless text everywhere. */
const SHORTEST_SECRET = 6;
const SHORTEST_PREFIXED = 20;
/** How many characters after a secret's start its pattern may need. */
const LONGEST_SHAPE = 4096;

export const getSecretValue = (secret: KnownSecret): string => (typeof secret === "string" ? secret : secret.value);

/** The forms of secrets in text: plain, inside a JSON string, inside a URL. */
export function listSecretForms(secrets: Iterable<string>): readonly string[] {
  const forms = new Set<string>();
  for (const secret of secrets) {
    if (secret.length < SHORTEST_SECRET) continue;
    forms.add(secret);
    forms.add(JSON.stringify(secret).slice(1, -1));
    forms.add(encodeURIComponent(secret.replace(/\p{Surrogate}/gu, "\uFFFD")));
  }
  return [...forms];
}

/** The first `limit` characters, redacted. The cut leaves no part of a secret. */
export function redactSecrets(text: string, forms: readonly string[], limit: number): string {
  const lookahead = forms.reduce((longest, { length }) => Math.max(longest, length), LONGEST_SHAPE);
  const seen = text.length <= limit ? text : text.slice(0, limit + lookahead);
  const spans = findSecretSpans(seen, forms);
  if (spans.length === 0 && text.length <= limit) return text;
  let redacted = "";
  let at = 0;
  for (const [start, end] of spans) {
    if (start >= limit) break;
    if (end <= at) continue;
    if (start >= at) redacted += seen.slice(at, start) + REDACTED_TEXT;
    at = end;
  }
  if (at < limit) redacted += seen.slice(at, limit);
  if (text.length <= limit) return redacted;
  const whole = redacted.replace(/[\uD800-\uDBFF]$/, "");
  return `${whole}… [cut: ${text.length} characters in all]`;
}

type TextSpan = readonly [start: number, end: number];

/** The places of known and likely secrets in a text, in order. They may overlap. */
export function findSecretSpans(text: string, forms: readonly string[]): readonly TextSpan[] {
  patterns ??= compilePatterns();
  const spans: TextSpan[] = [];
  const addMatches = (pattern: RegExp): void => {
    pattern.lastIndex = 0;
    // Not matchAll: it copies the expression each time, and this runs for every text of every event.
    for (let match = pattern.exec(text); match !== null; match = pattern.exec(text)) {
      const secret = match[1] ?? match[0];
      spans.push([pattern.lastIndex - secret.length, pattern.lastIndex]);
    }
  };
  if (patterns.trace.test(text)) patterns.shapes.forEach(addMatches);
  for (const [program, option] of patterns.options) if (text.includes(program)) addMatches(option);
  if (text.length >= SHORTEST_PREFIXED) spans.push(...findPrefixedSpans(text, patterns));
  for (const form of forms) for (const at of findAll(text, form)) spans.push([at, at + form.length]);
  return spans.sort(([a], [b]) => a - b);
}

export function findAll(text: string, part: string): readonly number[] {
  const found: number[] = [];
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + 1)) found.push(at);
  return found;
}

function findPrefixedSpans(text: string, { prefix, rests }: SecretPatterns): readonly TextSpan[] {
  const spans: TextSpan[] = [];
  prefix.lastIndex = 0;
  for (let match = prefix.exec(text); match !== null; match = prefix.exec(text)) {
    const rest = rests.get(match[0]);
    if (rest === undefined) continue;
    rest.lastIndex = prefix.lastIndex;
    if (!rest.test(text)) continue;
    spans.push([match.index, rest.lastIndex]);
    prefix.lastIndex = rest.lastIndex;
  }
  return spans;
}

interface SecretPatterns {
  /** Found in every text with one of the shapes, because most texts have none. */
  readonly trace: RegExp;
  /** The last group is the secret; without a group, the whole match. */
  readonly shapes: readonly RegExp[];
  /** Program options with a secret value, tried only on a text that names the program. */
  readonly options: readonly (readonly [program: string, RegExp])[];
  /** All prefixes in one expression, because most texts have none. */
  readonly prefix: RegExp;
  readonly rests: ReadonlyMap<string, RegExp>;
}

let patterns: SecretPatterns | undefined;

function compilePatterns(): SecretPatterns {
  const rests = secretPrefixes.flatMap(([prefixes, rest]) =>
    prefixes.split(" ").map((prefix) => [prefix, new RegExp(rest, "y")] as const),
  );
  const prefixes = rests.map(([prefix]) => prefix.replace(/[./]/g, "\\$&"));
  return {
    trace: /[:=]|-----BEGIN|eyJ|bearer\s|sk-|[rs]k_|gh[opusr]_|github_pat_|xox[abeprs]-|glpat-|npm_|AIza|AKIA|ASIA/i,
    // They run on any text, so each takes linear time: if a long repetition can fail, no match can start inside it.
    shapes: [
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
    ],
    options: [
      [
        "curl",
        createOptionPattern("curl", "(?:-u|--user|--proxy-user)", "[ =]?(?!['\"]?\\d+:\\d+\\b)", "[^\\s:'\"]{1,128}:"),
      ],
      ["curl", createOptionPattern("curl", "(?:-b|--cookie)", "[ =]?", "[^\\s='\"]{1,128}=")],
      ["mysql", createOptionPattern("mysql(?:dump|admin|import)?", "-p")],
      ["mariadb", createOptionPattern("mariadb(?:-dump|-admin)?", "-p")],
      ["sshpass", createOptionPattern("sshpass", "-p", " ?")],
      ["docker login", createOptionPattern("docker login", "-p", "[ =]?")],
      ["redis-cli", createOptionPattern("redis-cli", "-a", " ")],
    ],
    prefix: new RegExp(`(?<![A-Za-z0-9])(?:${prefixes.join("|")})`, "g"),
    rests: new Map(rests),
  };
}

/** Matches the value of an option up to 300 characters after its program. The value begins with `start`. */
function createOptionPattern(program: string, name: string, between = "", start = ""): RegExp {
  const value = `("${start}(?:[^"\\\\]|\\\\.)+"?|'${start}[^']+'?|${start}[^\\s"'\\\\;|&]+)`;
  // Looks back for the program only after finding the option, because looking back is slow.
  return new RegExp(`(?<=\\s)${name}(?<=\\b${program}\\b[^\\n;|&]{0,300})${between}${value}`, "g");
}

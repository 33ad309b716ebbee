import { QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import { createInputError } from "./input-error.ts";
import {
  formatReferenceText,
  getLiteralText,
  hasReference,
  isLikelySecretName,
  parseReferenceText,
  type ReferenceText,
  requireReference,
} from "./reference-text.ts";

const NAME_LIMIT = 40;
// No `__`: an action name must split into server and tool in only one way.
const NAME_PATTERN = /^[a-z0-9]+(?:[-_][a-z0-9]+)*$/;

// Words that nearly every server has in its name.
const FILLER = /^(?:mcp-)?server[-_]|^mcp[-_]|[-_](?:mcp[-_])?server$|[-_]mcp$/;

/** Derives a server name: `io.github.x/Airtable.MCP` → `airtable`. */
export function toLocalName(fullName: string): string {
  const last = fullName.split("/").findLast((part) => part !== "") ?? "";
  const plain = last
    .normalize("NFKD")
    .toLowerCase()
    .replace(/[^a-z0-9_-]+/g, "-")
    .replace(/[-_]{2,}/g, "-")
    .slice(0, NAME_LIMIT)
    .replace(/^[-_]+|[-_]+$/g, "");
  const name = plain.replace(FILLER, "") || plain;
  return name === "" ? "server" : name;
}

/** Throws `invalid_arguments`. */
export function requireServerName(name: string): string {
  if (name.length <= NAME_LIMIT && NAME_PATTERN.test(name)) return name;
  throw new QmError("invalid_arguments", `${quoteName(name)} cannot be the name of a server`, {
    hint: `Use lower-case letters and digits, with single - or _ between them, at most ${NAME_LIMIT}, as in \`github\`.`,
  });
}

const TEXT_LIMIT = 16_384;

type KeyKind = "env" | "header";

/** Checks environment variables or headers. Values that look like secrets must be references. */
export function checkPairs(pairs: Readonly<Record<string, string>>, where: KeyKind): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(pairs).map(([name, value]) => {
      requireKey(name, where);
      const text = parseCheckedText(value, name);
      requireReference(text, name, isLikelySecretName(name));
      return [name, formatPairValue(text, name, where)];
    }),
  );
}

/** Checks arguments. The value of `--token` or `--token=` must be a reference. */
export function checkArguments(args: readonly string[]): readonly string[] {
  return args.map((arg, at) => {
    const key = `argument ${at + 1}`;
    const text = parseCheckedText(arg, key);
    const before = args[at - 1] ?? "";
    const isOptionValue = before.startsWith("-") && !arg.startsWith("-");
    requireReference(text, key, isOptionValue && isLikelySecretName(before));
    const [, name, value] = /^(-[^=\s]+)=(.+)$/s.exec(arg) ?? [];
    if (name !== undefined && value !== undefined)
      requireReference(parseReferenceText(value, key), name, isLikelySecretName(name));
    return formatReferenceText(text, key);
  });
}

/** Checks one text: a command, a path or a URL. */
export function checkWord(text: string, key: string): string {
  const given = parseCheckedText(text, key);
  requireReference(given, key, false);
  return formatReferenceText(given, key);
}

/** A header value must not have line breaks, which would create a second header. */
export function formatPairValue(text: ReferenceText, key: string, where: KeyKind): string {
  if (where === "header" && /[\r\n]/.test(getLiteralText(text)))
    throw createInputError(`the header ${quoteName(key)} contains a line break`, "Write it on one line.");
  return formatReferenceText(text, key);
}

export function requireKey(name: string, where: KeyKind): void {
  const fits = where === "env" ? /^[A-Za-z_][A-Za-z0-9_]*$/ : /^[A-Za-z0-9-]+$/;
  if (name.length <= 200 && fits.test(name) && name !== "__proto__") return;
  const what = where === "env" ? "variable" : "header";
  const hint = "Use letters and digits, such as API_KEY for a variable and X-API-Key for a header.";
  throw createInputError(`${quoteName(name)} is not the name of a ${what}`, hint);
}

/** Checks an http(s) URL without a password. It may contain placeholders such as `<tenant>`. */
export function requireHttpUrl(url: string): void {
  const whole = url.replace(/<[^<>]*>/g, "x");
  const parsed = URL.canParse(whole) ? new URL(whole) : undefined;
  const isPlain = parsed !== undefined && parsed.username === "" && parsed.password === "";
  if (isPlain && /^https?:$/.test(parsed.protocol)) return;
  const shown = url.replace(/\/\/[^/?#]*@/, "//");
  const hint = "Use an https URL without a user name and password.";
  throw createInputError(`${quoteName(shown)} is not the address of a server`, hint);
}

function parseCheckedText(text: string, key: string): ReferenceText {
  if (text.length <= TEXT_LIMIT && !text.includes("\0")) {
    const given = parseReferenceText(text, key);
    if (hasReference(given) || getLiteralText(given).length > 0 || text === "") return given;
  }
  const hint = `Use at most ${TEXT_LIMIT} characters.`;
  throw createInputError(`${quoteName(key)} must be text of a reasonable length`, hint);
}

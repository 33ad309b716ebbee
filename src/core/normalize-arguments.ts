import { QmError } from "./errors.ts";
import { isRecord, type Json, type JsonObject } from "./json.ts";
import { quoteName } from "./names.ts";

export const normalForms = ["path", "url", "name"] as const;

/**
 * - `path`: parts joined by `/`, without `.` and empty parts; `..` removes the part before it and may not lead above the start
 * - `url`: absolute, in the form of the URL standard, without fragment and without needless percent-encoding
 * - `name`: NFC, no invisible characters, trimmed
 *
 * A function returns the common spelling of a value, or throws. It must return its own results unchanged.
 */
export type NormalForm = (typeof normalForms)[number] | ((value: string) => string);

/** Normal forms by argument. `options.cwd` is a field of an object. In a list, every item gets the form. */
export type ArgumentForms = Readonly<Record<string, NormalForm>>;
export type NormalizedArgs = { readonly args: JsonObject; readonly changed: readonly string[] };

/** Brings each declared argument into its normal form. Throws `invalid_arguments` or `path_refused`. */
export function normalizeArgs(forms: ArgumentForms, args: JsonObject): NormalizedArgs {
  const changed = new Set<string>();
  let normal: Json = args;
  for (const [argument, form] of Object.entries(forms)) {
    const normalize = typeof form === "function" ? form : (value: string) => builtIn[form](value, argument);
    normal = replaceTexts(normal, argument.split("."), (value) => {
      const text = normalize(value);
      if (text !== value) changed.add(argument);
      return text;
    });
  }
  return { args: normal as JsonObject, changed: [...changed] };
}

function replaceTexts(value: Json, steps: readonly string[], replace: (text: string) => string): Json {
  if (Array.isArray(value)) return value.map((item) => replaceTexts(item, steps, replace));
  const [step, ...rest] = steps;
  if (step === undefined) return typeof value === "string" ? replace(value) : value;
  if (!isRecord(value) || !Object.hasOwn(value, step)) return value;
  const record = value as JsonObject;
  return { ...record, [step]: replaceTexts(record[step] as Json, rest, replace) };
}

const builtIn = { path: normalizePath, url: normalizeUrl, name: normalizeName };

function normalizePath(text: string, argument: string): string {
  const refuse = (why: string) => new QmError("path_refused", `${argument} (${quoteName(text)}) ${why}`);
  if (text.includes("\0")) throw refuse("holds a NUL character");
  if (text.includes("\\")) throw refuse("holds a backslash; parts are separated by /");
  const parts: string[] = [];
  for (const part of text.split("/")) {
    if (part === "" || part === ".") continue;
    if (part !== "..") parts.push(part);
    else if (parts.pop() === undefined) throw refuse("leads out of its folder");
  }
  const path = parts.join("/");
  if (text.startsWith("/")) return `/${path}`;
  return path === "" && text !== "" ? "." : path;
}

/** Decoding can reveal parts that must be simplified in turn, so it is repeated until nothing changes. */
function normalizeUrl(text: string, argument: string): string {
  let url = text;
  for (let pass = 0; pass < 4; pass++) {
    const next = simplifyUrl(url, argument);
    if (next === url) return url;
    url = next;
  }
  throw new QmError("invalid_arguments", `${argument} (${quoteName(text)}) has no normal form`);
}

function simplifyUrl(text: string, argument: string): string {
  const refuse = (why: string) => new QmError("invalid_arguments", `${argument} (${quoteName(text)}) ${why}`);
  if (!URL.canParse(text)) throw refuse("is not an absolute URL");
  const url = new URL(text);
  // `https://good.example@evil.example` looks like another host.
  if (url.username !== "" || url.password !== "") throw refuse("holds a user name or a password");
  url.hash = "";
  // The URL standard does not lower-case the hosts of unknown schemes.
  url.hostname = url.hostname.replace(/\.+$/, "").toLowerCase();
  if (url.search === "") url.search = "";
  const encoded = url.href.replace(/%(?![0-9a-f]{2})/gi, "%25");
  // Decoding can reveal a dot segment, which only parsing removes.
  const decoded = encoded.replace(/%[0-9a-f]{2}/gi, decodeCharacter);
  return decoded === url.href ? decoded : new URL(decoded).href;
}

function decodeCharacter(encoded: string): string {
  const character = String.fromCharCode(Number.parseInt(encoded.slice(1), 16));
  return /[A-Za-z0-9._~-]/.test(character) ? character : encoded.toUpperCase();
}

function normalizeName(text: string): string {
  return text
    .replace(/[\p{Cf}\p{Default_Ignorable_Code_Point}]/gu, "")
    .trim()
    .normalize("NFC");
}

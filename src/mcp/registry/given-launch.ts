import { QmError } from "../../core/errors.ts";
import { quoted } from "../../core/names.ts";
import { givenText, hasReference, type ReferringText, wordsOf, written } from "./referring-text.ts";
import { looksSecretName, requireReference } from "./secret-rules.ts";

const TEXT_LIMIT = 16_384;

type Where = "env" | "header";

/** Variables or headers that somebody gave. Those that hold a secret, by their name or their look, must be references. */
export function givenPairs(pairs: Readonly<Record<string, string>>, where: Where): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(pairs).map(([name, value]) => {
      requireKey(name, where);
      const text = checkedText(value, name);
      requireReference(text, name, looksSecretName(name));
      return [name, writtenFor(text, name, where)];
    }),
  );
}

/** Arguments that somebody gave. What follows `--token`, or stands behind `--token=`, must be a reference. */
export function givenArguments(args: readonly string[]): readonly string[] {
  return args.map((arg, at) => {
    const key = `argument ${at + 1}`;
    const text = checkedText(arg, key);
    const before = args[at - 1] ?? "";
    const isValueOf = (name: string): boolean => name.startsWith("-") && !arg.startsWith("-") && looksSecretName(name);
    requireReference(text, key, isValueOf(before));
    const [, name, value] = /^(-[^=\s]+)=(.+)$/s.exec(arg) ?? [];
    if (name !== undefined && value !== undefined) requireReference(givenText(value, key), name, looksSecretName(name));
    return written(text, key);
  });
}

/** One text that somebody gave: a command, a path, a URL. */
export function givenWord(text: string, key: string): string {
  const given = checkedText(text, key);
  requireReference(given, key, false);
  return written(given, key);
}

/** A value as the configuration has it. A header's has no line breaks: they would make two of it. */
export function writtenFor(text: ReferringText, key: string, where: Where): string {
  if (where === "header" && /[\r\n]/.test(wordsOf(text))) {
    throw new QmError("invalid_arguments", `the header ${quoted(key)} has a line break in it`, {
      hint: "Give it on one line.",
    });
  }
  return written(text, key);
}

export function requireKey(name: string, where: Where): void {
  const fits = where === "env" ? /^[A-Za-z_][A-Za-z0-9_]*$/ : /^[A-Za-z0-9-]+$/;
  if (name.length <= 200 && fits.test(name) && name !== "__proto__") return;
  const what = where === "env" ? "variable" : "header";
  throw new QmError("invalid_arguments", `${quoted(name)} is not the name of a ${what}`, {
    hint: "Use letters and digits, as in API_KEY for a variable and X-API-Key for a header.",
  });
}

/** An address that can be reached by HTTP and shows no password. Parts of it may be missing yet, as in `<tenant>`. */
export function requireHttp(url: string): void {
  const whole = url.replace(/<[^<>]*>/g, "x");
  const parsed = URL.canParse(whole) ? new URL(whole) : undefined;
  const isPlain = parsed !== undefined && parsed.username === "" && parsed.password === "";
  if (isPlain && /^https?:$/.test(parsed.protocol)) return;
  const shown = url.replace(/\/\/[^/?#]*@/, "//");
  throw new QmError("invalid_arguments", `${quoted(shown)} is not the address of a server`, {
    hint: "Give an https URL without a user name and password.",
  });
}

function checkedText(text: string, key: string): ReferringText {
  if (text.length <= TEXT_LIMIT && !text.includes("\0")) {
    const given = givenText(text, key);
    if (hasReference(given) || wordsOf(given).length > 0 || text === "") return given;
  }
  throw new QmError("invalid_arguments", `${quoted(key)} was given something other than a text of usual length`, {
    hint: `Give at most ${TEXT_LIMIT} characters.`,
  });
}

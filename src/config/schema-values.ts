import { z } from "zod";
import { DURATION_PATTERN, type Duration, parseDuration } from "../core/runtime.ts";
import { referenceTexts } from "./file-keys.ts";

/** Read-only options of a schema. An option left out is absent, not `undefined`: YAML has no `undefined`. */
export type Options<T> = T extends (...args: never[]) => unknown
  ? T
  : T extends readonly (infer Item)[]
    ? readonly Options<Item>[]
    : T extends object
      ? { readonly [Key in keyof T]: Options<Exclude<T[Key], undefined>> }
      : T;

/** How documentation writes a reference. */
export const REFERENCE_FORMS = `\`\${env:NAME}\` or \`\${secret:NAME}\``;
export const DAY_MS = 86_400_000;
export const HOT_LIST_LIMIT = 64;

export function flag(preset: boolean, meaning: string) {
  return z.boolean().default(preset).describe(meaning);
}

export function list<S extends z.ZodType>(item: S, meaning: string) {
  return z.array(item).default([]).describe(meaning);
}

export function integer(from: number, to = Number.MAX_SAFE_INTEGER) {
  const range = to === Number.MAX_SAFE_INTEGER ? `of at least ${from}` : `from ${from} to ${to}`;
  const expected = `expected a whole number ${range}`;
  return z.int(expected).min(from, expected).max(to, expected);
}

export function text(what: string) {
  return z.string(`expected ${what}`).min(1, `expected ${what}`);
}

/** Text that is passed to `resolveReference` where it is used. */
export function referenceText(what: string) {
  return text(what).register(referenceTexts, { isChecked: false });
}

/** Text that is a reference and nothing else: a secret has no place in the file. */
export function secretReference() {
  return z
    .string()
    .regex(/^\$\{(?:env|secret):[A-Za-z_][A-Za-z0-9_]*\}$/, `expected ${REFERENCE_FORMS}, not the secret itself`)
    .register(referenceTexts, { isChecked: true, mayBeSecret: true });
}

export function actionPattern() {
  return text("the name of an action, a glob like file__*, or tag:<tag>").regex(
    /^\S+$/,
    "expected a name without spaces",
  );
}

export function duration() {
  const expected = "expected a time such as 30s, 15m, 24h or 7d";
  const schema = z
    .string(expected)
    .regex(DURATION_PATTERN, expected)
    .refine((text) => parseDuration(text) !== undefined, expected);
  return schema as unknown as z.ZodType<Duration, Duration>;
}

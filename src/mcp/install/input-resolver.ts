import { toOneLine } from "../../core/display-text.ts";
import { getOwn, isRecord, omitUndefined } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { didYouMean } from "../../core/nearest.ts";
import { createInputError } from "./input-error.ts";
import type { MissingInput } from "./install-plan.ts";
import {
  createLiteralText,
  fillTemplate,
  getLiteralText,
  hasReference,
  isLikelySecretName,
  parseReferenceText,
  type ReferenceText,
  requireReference,
  suggestSecretName,
} from "./reference-text.ts";
import type { ServerInput } from "./server-json.ts";

/**
 * The answers to a server's inputs by key. A repeated input has a list, also as JSON text. A list of objects gives each
 * repetition its own variables.
 */
export type InstallInputs = Readonly<Record<string, unknown>>;

export type InstallInput = ServerInput & { readonly variables?: Readonly<Record<string, ServerInput>> | undefined };

export interface InputSpec {
  readonly key: string;
  readonly where: MissingInput["where"];
  /** Other accepted keys. */
  readonly also?: readonly string[];
}

/** `server` is the name of the server here. */
type InputResolverOptions = { inputs: InstallInputs; server: string; secrets: ReadonlySet<string> };

export type InputResolver = ReturnType<typeof createInputResolver>;

const TEXT_LIMIT = 16_384;

/** Matches a server's inputs with the answers. */
export function createInputResolver({ inputs, server, secrets }: InputResolverOptions) {
  const missing = new Map<string, MissingInput>();
  const found = new Map<string, ReferenceText>();
  const warnings: string[] = [];
  const known = new Set<string>();

  function value(input: InstallInput, asked: InputSpec, scope = inputs, isPart = false): ReferenceText | undefined {
    const text = input.value === undefined ? open(input, asked, scope, isPart) : fillFixed(input, asked, scope);
    if (text !== undefined) for (const key of [asked.key, ...(asked.also ?? [])]) found.set(key, text);
    return text;
  }

  /** Fixed, except for the variables in it. */
  function fillFixed(input: InstallInput, asked: InputSpec, scope: InstallInputs): ReferenceText {
    return fillTemplate(input.value ?? "", (name) => {
      const variable = getOwn(input.variables ?? {}, name);
      if (variable === undefined) return undefined;
      const isSecret = variable.isSecret || isSecretInput(input, asked);
      const key = { key: name, where: "variable", also: [`${asked.key}.${name}`] } as const;
      return value({ ...variable, isSecret }, key, scope, true) ?? [];
    });
  }

  function open(input: InstallInput, asked: InputSpec, scope: InstallInputs, isPart: boolean) {
    const isSecret = isSecretInput(input, asked);
    const given = lookUp(asked, scope);
    if (given !== undefined) return checkInput(requireText(given, asked.key), input, asked.key, isSecret);
    if (input.default !== undefined) return createLiteralText(input.default);
    if (!input.isRequired && !(isPart && isSecret)) return undefined;
    const name = isSecret ? suggestSecretName(asked.key, server) : undefined;
    if (name !== undefined && secrets.has(name)) warnings.push(`it gets the stored secret ${name}`);
    else missing.set(`${asked.where} ${asked.key}`, toMissingInput(input, asked, name));
    return name === undefined ? createLiteralText(`<${asked.key}>`) : [{ reference: `secret:${name}` }];
  }

  function lookUp({ key, also = [] }: Omit<InputSpec, "where">, scope: InstallInputs): unknown {
    for (const one of [...also, key]) {
      known.add(one);
      const given = getOwn(scope, one);
      if (given !== undefined) return given;
    }
    return undefined;
  }

  function values(input: InstallInput, asked: InputSpec): readonly ReferenceText[] {
    const { key, where } = asked;
    const items = parseList(lookUp(asked, inputs));
    const all = items?.map((item) =>
      value(input, { key, where }, { ...inputs, ...(isRecord(item) ? item : { [key]: item }) }),
    );
    return (all ?? [value(input, asked)]).filter((text) => text !== undefined);
  }

  return {
    found,
    warnings,
    /** The value of an input. Undefined if it is optional and unset. A missing required value is recorded. */
    value: (input: InstallInput, asked: InputSpec) => value(input, asked),
    values,
    getText(asked: Omit<InputSpec, "where">) {
      const given = lookUp(asked, inputs);
      return given === undefined ? undefined : requireText(given, asked.key);
    },
    get missing(): readonly MissingInput[] {
      return [...missing.values()];
    },
    /** Throws `invalid_arguments` for an answer without an input. */
    requireAllUsed(): void {
      const foreign = Object.keys(inputs).find((key) => !known.has(key));
      if (foreign === undefined) return;
      const asks = [...known].filter((key) => !key.includes("."));
      const hint = asks.length === 0 ? "It has no inputs." : `It takes: ${asks.map(toOneLine).join(", ")}.`;
      throw createInputError(`it has no input ${quoteName(foreign)}${didYouMean(foreign, asks)}`, hint);
    },
  };
}

function isSecretInput({ isSecret }: ServerInput, { key, where }: InputSpec): boolean {
  return isSecret || ((where === "env" || where === "header") && isLikelySecretName(key));
}

function checkInput(given: string, input: ServerInput, key: string, isSecret: boolean): ReferenceText {
  const text = parseReferenceText(given, key);
  requireReference(text, key, isSecret);
  if (hasReference(text)) return text;
  const words = getLiteralText(text);
  if (input.choices !== undefined && input.choices.length > 0 && !input.choices.includes(words)) {
    const hint = `Use one of: ${input.choices.map(toOneLine).join(", ")}.`;
    throw createInputError(`${quoteName(key)} cannot be ${quoteName(words)}`, hint);
  }
  const fits = getOwn(FORMATS, input.format ?? "");
  if (fits === undefined || fits.test(words)) return text;
  const hint = input.format === "boolean" ? "Use true or false." : "Give digits.";
  throw createInputError(`${quoteName(key)} is ${quoteName(words)}, not a ${input.format}`, hint);
}

const FORMATS = { number: /^-?\d+(?:\.\d+)?$/, boolean: /^(?:true|false)$/ };

function toMissingInput(input: ServerInput, { key, where }: InputSpec, secretName: string | undefined): MissingInput {
  const { description, choices, format, placeholder } = input;
  return omitUndefined({
    key,
    where,
    secret: secretName !== undefined,
    ...(description === undefined ? {} : { description: toOneLine(description) }),
    ...(choices === undefined || choices.length === 0 ? {} : { choices }),
    format,
    placeholder,
    secretName,
  });
}

function requireText(given: unknown, key: string): string {
  const isText = typeof given === "string" || typeof given === "number" || typeof given === "boolean";
  const text = isText ? String(given) : undefined;
  if (text !== undefined && text.length <= TEXT_LIMIT && !text.includes("\0")) return text;
  const hint = "Use text. Only repeatable inputs take a list.";
  throw createInputError(`${quoteName(key)} must be text of a reasonable length`, hint);
}

/** The items of a list, or of a list written as JSON. */
function parseList(given: unknown): readonly unknown[] | undefined {
  if (Array.isArray(given)) return given;
  if (isRecord(given)) return [given];
  if (typeof given !== "string" || !/^\s*\[[\s\S]*\]\s*$/.test(given) || given.length > TEXT_LIMIT) return undefined;
  try {
    const list: unknown = JSON.parse(given);
    return Array.isArray(list) ? list : undefined;
  } catch {
    return undefined;
  }
}

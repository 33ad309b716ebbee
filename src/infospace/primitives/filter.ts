import { z } from "zod";
import { yieldToEventLoop } from "../../core/async.ts";
import { formatCount } from "../../core/display-text.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { type Condition, compileOpenCondition } from "../../core/expression.ts";
import { getOwn, isRecord, type Json } from "../../core/json.ts";
import { WORK_LIMIT, WorkExceeded } from "../../core/work-budget.ts";
import { isList } from "../json-preview.ts";
import { defineDerivation, type PrimitiveOptions } from "./derive.ts";
import type { FieldNames, ItemReason, PrimitiveItem, PrimitiveItems } from "./operation.ts";
import { createFieldNames, createReasonLog } from "./operation.ts";

export const filterAction = (parts: PrimitiveOptions) =>
  defineDerivation(parts, {
    entry: "filter-structured",
    aliases: ["infospace__filter"],
    description: "Keep the items for which a condition is true, as a new collection.",
    fields: {
      where: z
        .string()
        .describe(
          'CEL over fields, item and position: price > 10 && !sold, "red" in tags, has(item.owner), name.contains("x").',
        ),
    },
    examples: [{ args: { target: "collection__7", where: 'price > 10 && status == "open"' } }],
    derive: async ({ target, where }, open) => filterItems(await open(target), where),
  });

/** Once this many items have exceeded the work limit, the rest are not evaluated. */
const MAX_EXCEEDED = 4;

/**
 * The items for which a CEL expression is true. `item` is the content, `position` its place, every other name a field of the
 * item. An item with a missing field or a field of another type is `undecided` and left out. Throws `invalid_expression`
 * at once if the expression does not compile, and at the end if every item is undecided.
 */
export function filterItems(inputs: PrimitiveItems, expression: string) {
  const condition = compileFilter(expression);
  const reasons = createReasonLog();
  const names = createFieldNames();
  let [input, dropped, undecided, spent] = [0, 0, 0, 0];
  const exceeded: WorkExceeded[] = [];

  /** True, false, or the error that prevents a decision. */
  function evaluate(content: Json): boolean | QmError {
    if (exceeded.length >= MAX_EXCEEDED) return exceeded[0] as WorkExceeded;
    const budget = { left: WORK_LIMIT };
    try {
      return condition.holds(toVariables(condition, content, input), budget);
    } catch (thrown) {
      if (thrown instanceof WorkExceeded) exceeded.push(thrown);
      return thrown as QmError;
    } finally {
      spent += WORK_LIMIT - budget.left;
    }
  }

  async function* items(): AsyncGenerator<PrimitiveItem> {
    for await (const each of inputs) {
      const answer = evaluate(each.content);
      if (answer === false) dropped++;
      else if (answer !== true) {
        undecided++;
        names.take(each.content);
        // Without the expression, which the caller knows.
        reasons.add(input, getErrorMessage(answer).replace(/^expression "(?:[^"\\]|\\.)*": /, ""));
      }
      input++;
      if (spent > WORK_LIMIT / 2) {
        spent = 0;
        await yieldToEventLoop();
      }
      if (answer === true) yield each;
    }
    if (input > 0 && undecided === input) throw undecidableError(input, reasons.first(), names);
  }

  return {
    items: items(),
    report() {
      const report = { input, dropped, undecided, reasons: reasons.first() };
      const hint = reasonHint(reasons.first()[0]?.reason ?? "");
      const warning = `${undecided} of ${input} items are left out because the condition cannot be decided for them. ${hint}`;
      return { ...report, ...(undecided === 0 ? {} : { warning }) };
    },
  };
}

function compileFilter(expression: string): Condition {
  try {
    return compileOpenCondition(expression);
  } catch (thrown) {
    const meant = compileFieldNames(expression);
    if (meant !== undefined) return meant;
    const hint = expressionHint(expression);
    throw new QmError("invalid_expression", getErrorMessage(thrown), { cause: thrown, hint });
  }
}

function undecidableError(input: number, [first]: readonly ItemReason[], names: FieldNames): QmError {
  const why = first?.reason ?? "";
  const unknown = /(?:Unknown variable|No such key): (\w+)/.exec(why)?.[1];
  const about = `it can be decided for none of ${formatCount(input, "item")}: ${why}`;
  return new QmError("invalid_expression", `${about}; ${names.describe(unknown)}`, { hint: reasonHint(why) });
}

/** CEL keywords and type names that data may have as field names. */
const TYPES = ["type", "string", "int", "uint", "double", "bool", "bytes", "list", "map", "null_type", "google"];
const RESERVED =
  "as break const continue else for function if import let loop package namespace return var void while".split(" ");

const TEXT = /"""[\s\S]*?"""|'''[\s\S]*?'''|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/;
const WORD = new RegExp(
  `(${TEXT.source})|(\\bhas\\(\\s*)([A-Za-z_]\\w*)(?=\\s*\\))|(\\.\\s*)?\\b([A-Za-z_]\\w*)(\\s*\\()?`,
  "g",
);

/**
 * Compiles the expression with `item.` before names that CEL reserves: `type == "x"` means the field, and so does
 * `has(status)`. Undefined if that does not compile either.
 */
function compileFieldNames(expression: string): Condition | undefined {
  for (const types of [["type"], TYPES]) {
    const names = [...types, ...RESERVED];
    const meant = expression.replace(
      WORD,
      (all: string, text?: string, has?: string, asked?: string, dot?: string, name?: string, call?: string) => {
        if (has !== undefined) return `${has}item.${asked}`;
        const isField = text === undefined && dot === undefined && call === undefined && names.includes(name ?? "");
        return isField ? `item.${all}` : all;
      },
    );
    if (meant === expression) continue;
    try {
      return compileOpenCondition(meant);
    } catch {
      // Try the next set of names.
    }
  }
  return undefined;
}

const foreignSyntax: readonly (readonly [RegExp, string])[] = [
  [/\band\b/i, "&& for and"],
  [/\bor\b/i, "|| for or"],
  [/\bnot\b/i, "! for not"],
  [/===|(?<![=!<>])=(?![=~])/, "== for equal"],
  [/!==|<>/, "!= for not equal"],
  [/\bi?like\b|=~/i, 'name.contains("x") or name.matches("^x") for like'],
  [/\bis\s+(?:not\s+)?null\b/i, "== null, or !has(item.name), for is null"],
  [/\bin\s*\(/i, 'status in ["a", "b"] for one of several'],
  [/\b(?:to)?lower(?:case)?\s*\(/i, "name.lowerAscii() for lower case"],
  [/\b(?:to)?upper(?:case)?\s*\(/i, "name.upperAscii() for upper case"],
  [/\b(?:len|length|count)\b/i, "size(tags) for how many"],
  [/\b(?:contains|startsWith|endsWith|matches)\s*\((?=[^)]*,)/, 'name.contains("x"), with the text before the dot'],
];

const LANGUAGE =
  'It is CEL: price > 10 && !sold, "red" in tags, name.contains("x"), startsWith, endsWith, matches("^A"), lowerAscii(), size(tags), int(n), double(n), has(item.owner), item["first name"].';

function expressionHint(expression: string): string {
  const code = expression.replace(new RegExp(TEXT, "g"), '""');
  const advice = foreignSyntax.filter(([pattern]) => pattern.test(code)).map(([, instead]) => instead);
  return advice.length === 0 ? LANGUAGE : `Write ${advice.join("; ")}. ${LANGUAGE}`;
}

function reasonHint(reason: string): string {
  if (/Unknown variable|No such key/.test(reason)) return "has(item.name) && … is false where a field is missing.";
  if (/dyn<string>/.test(reason))
    return "double(name) reads a number out of a text, as infospace__coerce does for all.";
  if (/did not give/.test(reason)) return "It must give true or false: name == true, or size(name) > 0.";
  return LANGUAGE;
}

/** CEL tells types apart by their constructor, so an object with a field of that name becomes a Map. Copies only then. */
function toCelValue(value: Json): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (isList(value)) {
    const items = value.map(toCelValue);
    return items.some((item, index) => item !== value[index]) ? items : value;
  }
  const entries = Object.entries(value).map(([name, part]): [string, unknown] => [name, toCelValue(part)]);
  if (Object.hasOwn(value, "constructor")) return new Map(entries);
  return entries.some(([name, part]) => part !== value[name]) ? Object.fromEntries(entries) : value;
}

/** The fields that the condition mentions, without a prototype, so that only fields of the item are found. */
function toVariables({ mentions }: Condition, item: Json, position: number): Readonly<Record<string, unknown>> {
  const variables: Record<string, unknown> = Object.create(null);
  for (const name of mentions) {
    const value = isRecord(item) ? getOwn(item, name) : undefined;
    if (value !== undefined) variables[name] = toCelValue(value as Json);
  }
  // CEL integers are bigints.
  variables.position = BigInt(position);
  if (mentions.has("item")) variables.item = toCelValue(item);
  return variables;
}

import { yieldToEventLoop } from "../../core/async.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { type Condition, compileOpenCondition } from "../../core/expression.ts";
import { getOwn, isRecord, type Json } from "../../core/json.ts";
import { WORK_LIMIT, WorkExceeded } from "../../core/work-budget.ts";
import { isList } from "../json-preview.ts";
import {
  createFieldNames,
  createReasonLog,
  type DerivedItems,
  type FieldNames,
  type ItemReason,
  type PrimitiveItem,
  type PrimitiveItems,
} from "./operation.ts";

/** Names that CEL has for itself, and that data has as well. */
const TYPES = ["type", "string", "int", "uint", "double", "bool", "bytes", "list", "map", "null_type", "google"];
const RESERVED =
  "as break const continue else for function if import let loop package namespace return var void while".split(" ");

const TEXT = /"""[\s\S]*?"""|'''[\s\S]*?'''|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/;
const WORD = new RegExp(
  `(${TEXT.source})|(\\bhas\\(\\s*)([A-Za-z_]\\w*)(?=\\s*\\))|(\\.\\s*)?\\b([A-Za-z_]\\w*)(\\s*\\()?`,
  "g",
);

/**
 * The same expression with `item.` before names that the language has for itself: `type == "x"` is about a field, and so is
 * `has(status)`. Undefined where that makes no expression of it either.
 */
function compileFieldNames(expression: string): Condition | undefined {
  for (const names of [
    ["type", ...RESERVED],
    [...TYPES, ...RESERVED],
  ]) {
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
      // Not what was meant, either.
    }
  }
  return undefined;
}

/** What people write who know another language, and what it is here. */
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
  const told = foreignSyntax.filter(([pattern]) => pattern.test(code)).map(([, instead]) => instead);
  return told.length === 0 ? LANGUAGE : `Write ${told.join("; ")}. ${LANGUAGE}`;
}

/** What helps where an expression cannot be decided for an item. */
function reasonHint(reason: string): string {
  if (/Unknown variable|No such key/.test(reason)) return "has(item.name) && … is false where a field is missing.";
  if (/dyn<string>/.test(reason))
    return "double(name) reads a number out of a text, as infospace__coerce does for all.";
  if (/did not give/.test(reason)) return "It must give true or false: name == true, or size(name) > 0.";
  return LANGUAGE;
}

type FilterReport = {
  readonly input: number;
  /** Those for which it is false. */
  readonly dropped: number;
  /** Those for which it is neither true nor false: a field that it needs is missing, or is of another type. They are not kept. */
  readonly undecided: number;
  readonly reasons: readonly ItemReason[];
  readonly warning?: string;
};

/** After so many items that reached the work limit, the others are not tried. */
const MOST_EXCEEDED = 4;

/**
 * Those for which a CEL expression is true. `item` is the content, `position` its place; every other name is a field of
 * the item. Throws `invalid_expression` at once for what is no expression, and at the end for one that could be decided for
 * no item at all.
 */
export function filterItems(inputs: PrimitiveItems, expression: string): DerivedItems<FilterReport> {
  const condition = compileFilter(expression);
  const reasons = createReasonLog();
  const names = createFieldNames();
  let input = 0;
  let dropped = 0;
  let undecided = 0;

  let spent = 0;
  const exceeded: WorkExceeded[] = [];

  /** True, false, or why it cannot be decided. */
  function evaluate(content: Json): boolean | QmError {
    if (exceeded.length >= MOST_EXCEEDED) return exceeded[0] as WorkExceeded;
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
        reasons.add(input, formatFilterProblem(answer));
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
    report: () => ({
      input,
      dropped,
      undecided,
      reasons: reasons.first(),
      ...(undecided === 0 ? {} : { warning: formatWarning(undecided, input, reasons.first()) }),
    }),
  };
}

function compileFilter(expression: string): Condition {
  try {
    return compileOpenCondition(expression);
  } catch (thrown) {
    const meant = compileFieldNames(expression);
    if (meant !== undefined) return meant;
    throw new QmError("invalid_expression", getErrorMessage(thrown), {
      cause: thrown,
      hint: expressionHint(expression),
    });
  }
}

/** Without the expression, which whoever gave it knows. */
function formatFilterProblem(answer: unknown): string {
  return getErrorMessage(answer).replace(/^expression "(?:[^"\\]|\\.)*": /, "");
}

function undecidableError(input: number, [first]: readonly ItemReason[], names: FieldNames): QmError {
  const why = first?.reason ?? "";
  const unknown = /(?:Unknown variable|No such key): (\w+)/.exec(why)?.[1];
  const about = `it can be decided for none of ${input} ${input === 1 ? "item" : "items"}: ${why}`;
  return new QmError("invalid_expression", `${about}; ${names.describe(unknown)}`, { hint: reasonHint(why) });
}

function formatWarning(undecided: number, input: number, [first]: readonly ItemReason[]): string {
  const hint = reasonHint(first?.reason ?? "");
  return `${undecided} of ${input} items are left out because it cannot be decided for them. ${hint}`;
}

/**
 * CEL tells types apart by their constructor, and an item may have a field of that name. A map is a map whatever is in it.
 * What needs no change is answered as it is.
 */
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

/** Only what it mentions, without a prototype, so that nothing is found that is not in the item. */
function toVariables({ mentions }: Condition, item: Json, position: number): Readonly<Record<string, unknown>> {
  const variables: Record<string, unknown> = Object.create(null);
  for (const name of mentions) {
    const value = isRecord(item) ? getOwn(item, name) : undefined;
    if (value !== undefined) variables[name] = toCelValue(value as Json);
  }
  // A whole number, as literals are.
  variables.position = BigInt(position);
  if (mentions.has("item")) variables.item = toCelValue(item);
  return variables;
}

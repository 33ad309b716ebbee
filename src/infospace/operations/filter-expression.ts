import { type Condition, compileOpenCondition } from "../../core/expression.ts";

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
export function asFields(expression: string): Condition | undefined {
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
const foreign: readonly (readonly [RegExp, string])[] = [
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

export function expressionHint(expression: string): string {
  const code = expression.replace(new RegExp(TEXT, "g"), '""');
  const told = foreign.filter(([pattern]) => pattern.test(code)).map(([, instead]) => instead);
  return told.length === 0 ? LANGUAGE : `Write ${told.join("; ")}. ${LANGUAGE}`;
}

/** What helps where an expression cannot be decided for an item. */
export function reasonHint(reason: string): string {
  if (/Unknown variable|No such key/.test(reason)) return "has(item.name) && … is false where a field is missing.";
  if (/dyn<string>/.test(reason))
    return "double(name) reads a number out of a text, as infospace__coerce does for all.";
  if (/did not give/.test(reason)) return "It must give true or false: name == true, or size(name) > 0.";
  return LANGUAGE;
}

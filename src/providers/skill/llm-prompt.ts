import type { JsonSchema } from "../../core/action.ts";
import { QmError } from "../../core/errors.ts";
import { getOwn, isRecord, type Json, type JsonObject } from "../../core/json.ts";
import { HANDLE_FORM } from "../../core/names.ts";
import { didYouMean } from "../../core/nearest.ts";
import {
  createFieldError,
  type FieldProblem,
  readSkillEffect,
  readSkillInputs,
  readSkillOutput,
} from "./skill-inputs.ts";

type Fields = Readonly<Record<string, unknown>>;

const PLACEHOLDER = /\{\{\s*([\w-]{1,64})\s*\}\}/g;
const MAX_TOKENS = 4_000;
/** How many placeholders are reported: a hostile body may have very many. */
const REPORTED = 20;

/** The front matter of a skill of the type `llm`. */
export function readLlmFields(fields: Fields) {
  const inputs = readSkillInputs(fields, "llm");
  const output = readSkillOutput(fields);
  const { effect, problems } = readSkillEffect(fields);
  const { max_tokens: maxTokens = MAX_TOKENS, temperature } = fields;
  const limits = [
    ...(isBetween(maxTokens, 1, 1_000_000) && Number.isInteger(maxTokens)
      ? []
      : [createFieldError("max_tokens", "expected a whole number from 1 to 1000000")]),
    ...(temperature === undefined || isBetween(temperature, 0, 2)
      ? []
      : [createFieldError("temperature", "expected a number from 0 to 2")]),
  ];
  return {
    inputSchema: inputs.schema,
    outputSchema: output?.schema,
    effect,
    maxTokens: maxTokens as number,
    temperature: temperature as number | undefined,
    problems: [...inputs.problems, ...(output?.problems ?? []), ...problems, ...limits],
  };
}

const isBetween = (value: unknown, min: number, max: number): boolean =>
  typeof value === "number" && value >= min && value <= max;

/** The lint rules of the type `llm`. A placeholder without an input is no error: it stays in the text. */
export function checkLlmSkill(fields: Fields, body: string): readonly FieldProblem[] {
  const { inputSchema, problems } = readLlmFields(fields);
  if (problems.some(({ level }) => level === "error")) return problems;
  const names = new Set(isRecord(inputSchema.properties) ? Object.keys(inputSchema.properties) : []);
  const unknown = new Map<string, FieldProblem>();
  for (const [bodyLine, line] of body.split("\n").entries())
    for (const [, name = ""] of line.matchAll(PLACEHOLDER))
      if (!names.has(name) && !unknown.has(name) && unknown.size < REPORTED) {
        const message = `{{${name}}} is not one of the inputs${didYouMean(name, names)}`;
        unknown.set(name, { rule: "placeholder", level: "warning", bodyLine, message });
      }
  return [...problems, ...unknown.values()];
}

/** About 50,000 tokens: common models take more, and answers over longer texts miss details. */
const PROMPT_CHARS = 200_000;
const TAG = /<(?=\/?skill_input\b)/gi;
const NOT_GIVEN = "(not given)";

/**
 * The body with the inputs in place of its placeholders. Inputs that it does not mention follow it. A placeholder that names
 * no input stays as it is. Throws `too_large`, and `invalid_arguments` for a handle in place of its content.
 */
export function renderPrompt(body: string, { properties }: JsonSchema, args: JsonObject): string {
  const names = isRecord(properties) ? Object.keys(properties) : [];
  const values = new Map(names.map((name) => [name, formatInput(name, getOwn(args, name))]));
  const rest = new Set(names.filter((name) => getOwn(args, name) !== undefined));
  const parts: string[] = [];
  let size = 0;
  const add = (part: string): void => {
    size += part.length;
    // Counted before the parts are joined: a body can repeat a placeholder thousands of times.
    if (size > PROMPT_CHARS) throw tooLongError();
    parts.push(part);
  };
  let end = 0;
  const template = body.trim();
  for (const match of template.matchAll(PLACEHOLDER)) {
    const [text, name = ""] = match;
    add(template.slice(end, match.index));
    add(values.get(name) ?? text);
    rest.delete(name);
    end = match.index + text.length;
  }
  add(template.slice(end));
  for (const name of rest) add(`\n\n${values.get(name)}`);
  return parts.join("");
}

/** A value in tags that it cannot close, so that a model can tell it from the instructions. */
function formatInput(name: string, value: Json | undefined): string {
  if (value === undefined) return NOT_GIVEN;
  // The model would work on the handle's name. A handler gets the content if the caller asks for it.
  if (typeof value === "string" && HANDLE_FORM.test(value.trim()))
    throw new QmError("invalid_arguments", `${name} is the name of a handle, not its content`, {
      hint: `Give {"$from": "${value.trim()}"} to insert the content.`,
    });
  const text = formatValue(value).replace(TAG, "&lt;");
  const space = text.includes("\n") ? "\n" : "";
  return `<skill_input name="${name}">${space}${text}${space}</skill_input>`;
}

const LINE_CHARS = 120;
const isLongText = (item: Json): boolean =>
  typeof item === "string" && (item.length > LINE_CHARS || item.includes("\n"));

/** Text as it is, the items of a collection under numbered headings, and other values as JSON. */
function formatValue(value: Json): string {
  if (typeof value === "string") return value;
  const isCollection = Array.isArray(value) && value.some((item) => isRecord(item) || isLongText(item));
  if (!isCollection) return JSON.stringify(value);
  return value.map((item, at) => `## ${at + 1}\n\n${formatValue(item)}`).join("\n\n");
}

function tooLongError(): QmError {
  const message = `the prompt would be longer than ${PROMPT_CHARS} characters`;
  const hint =
    "Give less text at a time. Or divide it with {infospace__split}, and run the skill for every part with {infospace__map}.";
  return new QmError("too_large", message, { hint });
}

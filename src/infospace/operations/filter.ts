import { yieldToEventLoop } from "../../core/async.ts";
import { messageOf, QmError } from "../../core/errors.ts";
import { type Condition, compileOpenCondition } from "../../core/expression.ts";
import { getOwn, isRecord, type Json } from "../../core/json.ts";
import { WORK_LIMIT, WorkExceeded } from "../../core/work.ts";
import { isList } from "../content.ts";
import type { Input } from "./derived.ts";
import { createReasons, type Derived, type Inputs, type Reason } from "./derived.ts";
import { createFieldNames, type FieldNames } from "./fields.ts";
import { asFields, expressionHint, reasonHint } from "./filter-expression.ts";

export type Filtered = {
  readonly input: number;
  /** Those for which it is false. */
  readonly dropped: number;
  /** Those for which it is neither true nor false: a field that it needs is missing, or is of another type. They are not kept. */
  readonly undecided: number;
  readonly reasons: readonly Reason[];
  readonly warning?: string;
};

/** After so many items that reached the work limit, the others are not tried. */
const MOST_EXCEEDED = 4;

/**
 * Those for which a CEL expression is true. `item` is the content, `position` its place; every other name is a field of
 * the item. Throws `invalid_expression` at once for what is no expression, and at the end for one that could be decided for
 * no item at all.
 */
export function filter(inputs: Inputs, expression: string): Derived<Filtered> {
  const condition = understood(expression);
  const reasons = createReasons();
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
      return condition.holds(variablesOf(condition, content, input), budget);
    } catch (thrown) {
      if (thrown instanceof WorkExceeded) exceeded.push(thrown);
      return thrown as QmError;
    } finally {
      spent += WORK_LIMIT - budget.left;
    }
  }

  async function* items(): AsyncGenerator<Input> {
    for await (const each of inputs) {
      const answer = evaluate(each.content);
      if (answer === false) dropped++;
      else if (answer !== true) {
        undecided++;
        names.take(each.content);
        reasons.add(input, problemOf(answer));
      }
      input++;
      if (spent > WORK_LIMIT / 2) {
        spent = 0;
        await yieldToEventLoop();
      }
      if (answer === true) yield each;
    }
    if (input > 0 && undecided === input) throw undecidable(input, reasons.first(), names);
  }

  return {
    items: items(),
    report: () => ({
      input,
      dropped,
      undecided,
      reasons: reasons.first(),
      ...(undecided === 0 ? {} : { warning: warningOf(undecided, input, reasons.first()) }),
    }),
  };
}

function understood(expression: string): Condition {
  try {
    return compileOpenCondition(expression);
  } catch (thrown) {
    const meant = asFields(expression);
    if (meant !== undefined) return meant;
    throw new QmError("invalid_expression", messageOf(thrown), { cause: thrown, hint: expressionHint(expression) });
  }
}

/** Without the expression, which whoever gave it knows. */
function problemOf(answer: unknown): string {
  return messageOf(answer).replace(/^expression "(?:[^"\\]|\\.)*": /, "");
}

function undecidable(input: number, [first]: readonly Reason[], names: FieldNames): QmError {
  const why = first?.reason ?? "";
  const unknown = /(?:Unknown variable|No such key): (\w+)/.exec(why)?.[1];
  const about = `it can be decided for none of ${input} ${input === 1 ? "item" : "items"}: ${why}`;
  return new QmError("invalid_expression", `${about}; ${names.told(unknown)}`, { hint: reasonHint(why) });
}

function warningOf(undecided: number, input: number, [first]: readonly Reason[]): string {
  const hint = reasonHint(first?.reason ?? "");
  return `${undecided} of ${input} items are left out because it cannot be decided for them. ${hint}`;
}

/**
 * CEL tells types apart by their constructor, and an item may have a field of that name. A map is a map whatever is in it.
 * What needs no change is answered as it is.
 */
function legible(value: Json): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (isList(value)) {
    const items = value.map(legible);
    return items.some((item, index) => item !== value[index]) ? items : value;
  }
  const entries = Object.entries(value).map(([name, part]): [string, unknown] => [name, legible(part)]);
  if (Object.hasOwn(value, "constructor")) return new Map(entries);
  return entries.some(([name, part]) => part !== value[name]) ? Object.fromEntries(entries) : value;
}

/** Only what it mentions, without a prototype, so that nothing is found that is not in the item. */
function variablesOf({ mentions }: Condition, item: Json, position: number): Readonly<Record<string, unknown>> {
  const variables: Record<string, unknown> = Object.create(null);
  for (const name of mentions) {
    const value = isRecord(item) ? getOwn(item, name) : undefined;
    if (value !== undefined) variables[name] = legible(value as Json);
  }
  // A whole number, as literals are.
  variables.position = BigInt(position);
  if (mentions.has("item")) variables.item = legible(item);
  return variables;
}

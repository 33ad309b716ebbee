import { matchesGlob } from "../core/glob.ts";
import { getOwn, isRecord } from "../core/json.ts";
import type { MadeCall } from "../replay/scripted.ts";
import type { ExpectedCall } from "./case.ts";

/** Whether everything that is said of a value is so: fields it does not speak of may be there, items of lists may not. */
export function holds(expected: unknown, value: unknown): boolean {
  if (Array.isArray(expected)) {
    if (!Array.isArray(value) || value.length !== expected.length) return false;
    return expected.every((part, index) => holds(part, value[index]));
  }
  if (isRecord(expected)) {
    if (!isRecord(value)) return false;
    return Object.entries(expected).every(
      ([key, part]) => Object.hasOwn(value, key) && holds(part, getOwn(value, key)),
    );
  }
  return Object.is(expected, value);
}

/** An expectation of a call, whichever way it was written. */
export function expectedCall(written: string | ExpectedCall): ExpectedCall {
  return typeof written === "string" ? { name: written } : written;
}

export function fitsCall({ name, args, status }: ExpectedCall, made: MadeCall): boolean {
  const isNamed = namesOf(made).some((spelling) => matchesGlob(name, spelling));
  return isNamed && (args === undefined || holds(args, made.args)) && (status === undefined || made.status === status);
}

/** A registered tool also goes by its bare name. What was taken for nothing is known by what was written. */
function namesOf({ action, asked }: MadeCall): readonly string[] {
  const name = action ?? asked;
  return name.startsWith(TOOL) ? [name, name.slice(TOOL.length)] : [name];
}

const TOOL = "tool__";

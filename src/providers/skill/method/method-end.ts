import type { CallContext } from "../../../core/action.ts";
import { getErrorMessage } from "../../../core/errors.ts";
import { getOwn, isRecord, type Json, type JsonObject, omitUndefined } from "../../../core/json.ts";
import { HANDLE_FORM, quoteName } from "../../../core/names.ts";
import { didYouMean } from "../../../core/nearest.ts";
import { FAILED, isUnfinished, type Method } from "./method-file.ts";
import type { MethodPrompt } from "./method-prompt.ts";
import type { MethodProgress, MethodResult } from "./method-run.ts";
import type { MethodServices } from "./method-services.ts";

/** In characters of JSON. */
const EXPORT_LIMIT = 32 * 1024;
/** Longer notes are not read for conditions. */
const NOTE_LIMIT = 1024 * 1024;
const REASON_CHARS = 1_000;

interface EndParts extends MethodPrompt {
  readonly context: Pick<CallContext, "caller">;
  readonly services: Pick<MethodServices, "readNote">;
}

/** The answer to a tool call of the model, and the changed state. */
export type ToolReply = { readonly text: string; readonly progress?: MethodProgress };

/** Sets one of the declared exports. A handle must be one that the caller can use. */
export async function setExport(parts: EndParts, progress: MethodProgress, args: unknown): Promise<ToolReply> {
  const { name, value, handle } = isRecord(args) ? args : {};
  const { exports } = parts.method;
  if (typeof name !== "string" || !exports.includes(name))
    return { text: `error: ${quoteName(String(name))} is not an export${didYouMean(String(name), exports)}` };
  const others = progress.handles.filter((each) => each !== name);
  if (handle === undefined) {
    if (value === undefined) return { text: "error: give a value or a handle" };
    const size = JSON.stringify(value).length;
    if (size > EXPORT_LIMIT)
      return { text: `error: ${size} characters are too many. Store it as a note and give its handle.` };
    const changed = { ...progress, exports: { ...progress.exports, [name]: value as Json }, handles: others };
    return { text: "set", progress: changed };
  }
  if (typeof handle !== "string" || !HANDLE_FORM.test(handle)) return { text: "error: a handle is like note__12" };
  try {
    await parts.services.readNote(handle, parts.context.caller);
  } catch (thrown) {
    return { text: `error: ${getErrorMessage(thrown)}` };
  }
  const changed = { ...progress, exports: { ...progress.exports, [name]: handle }, handles: [...others, name] };
  return { text: "set", progress: changed };
}

export type EndReply = ToolReply | { readonly result: MethodResult; readonly isStepFinished: boolean };

/** Ends the method, or tells the model why not. An end that is not accepted twice in the same way fails. */
export async function endMethod(parts: EndParts, progress: MethodProgress, args: unknown): Promise<EndReply> {
  const { outcome, reason: given } = isRecord(args) ? args : {};
  const { outcomes, steps } = parts.method;
  const { requests, results, exports } = progress;
  const reason = typeof given === "string" && given.trim() !== "" ? given.trim().slice(0, REASON_CHARS) : undefined;
  const all = [...outcomes, FAILED];
  if (typeof outcome !== "string" || !all.includes(outcome)) {
    const near = didYouMean(String(outcome), all);
    return { text: `error: ${quoteName(String(outcome))} is not an outcome${near}. Use ${all.join(", ")}.` };
  }
  if (outcome === FAILED) {
    const details = { requests, steps_done: results.length, exports };
    const message = `the method failed: ${reason ?? "no reason was given"}`;
    return { result: { error: { code: "action_failed", message, details } }, isStepFinished: false };
  }
  const unmet = await findUnmet(parts, progress, outcome);
  if (unmet.length === 0) {
    const isStepFinished = !isUnfinished(outcome) && results.length < steps.length;
    const steps_done = results.length + (isStepFinished ? 1 : 0);
    return { result: omitUndefined({ outcome, reason, exports, steps_done, requests }), isStepFinished };
  }
  const rejected = JSON.stringify([outcome, unmet]);
  if (rejected !== progress.rejected) {
    const text = `error: not accepted: ${unmet.join("; ")}. Do what is missing, or end with another outcome.`;
    return { text, progress: { ...progress, rejected } };
  }
  const details = { outcome, unmet, requests, steps_done: results.length, exports };
  const message = `the outcome ${outcome} was not accepted: ${unmet.join("; ")}`;
  return { result: { error: { code: "not_accepted", message, details } }, isStepFinished: false };
}

/** The conditions that do not hold. One that cannot be evaluated does not hold. */
async function findUnmet(parts: EndParts, progress: MethodProgress, outcome: string): Promise<readonly string[]> {
  const conditions = parts.method.accept.filter(({ mentions }) => mentions.has("outcome") || !isUnfinished(outcome));
  if (conditions.length === 0) return [];
  const notes = await readNotes(parts, progress);
  const variables = { outcome, exports: withNull(parts.method, progress.exports), notes, args: parts.args };
  return conditions.flatMap((condition) => {
    try {
      return condition.holds(variables) ? [] : [condition.text];
    } catch (thrown) {
      return [`${condition.text} (${getErrorMessage(thrown)})`];
    }
  });
}

/** An export that is not set is null, so that a condition can ask for it. */
const withNull = ({ exports }: Method, values: JsonObject): JsonObject =>
  Object.fromEntries(exports.map((name) => [name, getOwn(values, name) ?? null]));

async function readNotes({ services, context }: EndParts, progress: MethodProgress): Promise<JsonObject> {
  const notes: Record<string, Json> = {};
  for (const name of progress.handles) {
    const content = await services.readNote(String(progress.exports[name]), context.caller).catch(() => null);
    notes[name] = JSON.stringify(content).length > NOTE_LIMIT ? null : content;
  }
  return notes;
}

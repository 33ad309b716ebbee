import { hash } from "node:crypto";
import { z } from "zod";
import type { Caller } from "../core/caller.ts";
import { type ErrorCode, errorCodes } from "../core/errors.ts";
import type { ScriptedCall } from "../replay/scripted-call.ts";

/** A recorded piece of work and what is expected of an agent that repeats it. */
export interface EvalCase {
  readonly id: string;
  readonly description?: string;
  /** Default: actor `default`. */
  readonly caller?: Partial<Caller>;
  /** JSON input for the subject, in a format of its own. */
  readonly messages?: unknown;
  /** The prompt with which the expectations were recorded. */
  readonly prompt?: { readonly hash: string; readonly text?: string };
  /** The calls with which the subject's calls are answered. */
  readonly calls: readonly ScriptedCall[];
  readonly expected: CaseExpectations;
  readonly source?: { readonly session: string; readonly turn?: string };
}

/** Each expectation is checked by the scorer of the same name. */
export interface CaseExpectations {
  readonly state?: string;
  /** Parts that must be present. Each may have further fields. */
  readonly parts?: readonly ExpectedPart[];
  readonly exact?: unknown;
  /** JSON Schemas for every part of a type, or for all parts as one array. */
  readonly schema?: readonly { readonly part?: string; readonly schema: Readonly<Record<string, unknown>> }[];
  readonly called?: readonly (string | ExpectedCall)[];
  readonly notCalled?: readonly (string | ExpectedCall)[];
}

export type ExpectedPart = { readonly type: string } & Readonly<Record<string, unknown>>;

export interface ExpectedCall {
  /** A name or a glob. */
  readonly name: string;
  /** Arguments that must be present, among others. */
  readonly args?: Readonly<Record<string, unknown>>;
  readonly status?: ScriptedCall["outcome"]["status"];
  /** The exact number of calls. Default: at least one. */
  readonly times?: number;
}

const json = z.unknown();
const text = z.string().optional();
const record = z.record(z.string(), json);
const isCode = (value: unknown) => typeof value === "string" && Object.hasOwn(errorCodes, value);
const code = z.custom<ErrorCode>(isCode, "expected an error code; docs/errors.md has them");
const error = z.looseObject({ code, error: z.string() });
const outcome = z.discriminatedUnion("status", [
  z.strictObject({ status: z.literal("done"), data: json }),
  z.strictObject({ status: z.literal("failed"), error }),
  z.strictObject({ status: z.literal("refused"), error }),
  z.strictObject({ status: z.literal("waiting") }),
]);
const status = z.enum(["done", "failed", "refused", "waiting"]);
const name = z.string().min(1);
const times = z.int().min(0).optional();
const expectedCall = z.strictObject({ name, args: record.optional(), status: status.optional(), times });
const called = z.array(z.union([name, expectedCall]));
const call = z.strictObject({ name, args: json.optional(), filledArgs: json.optional(), outcome, approvedBy: text });
const user = z.looseObject({ id: z.string() }).optional();

/** The format of a case file. It is strict, because a misspelt expectation would always be met. */
export const caseSchema = z.strictObject({
  id: z.string().min(1).max(256),
  description: text,
  caller: z.strictObject({ actor: text, session: text, turn: text, tenant: text, person: text, user }).optional(),
  messages: json.optional(),
  prompt: z.strictObject({ hash: z.string().min(1), text }).optional(),
  calls: z.array(call),
  expected: z.strictObject({
    state: text,
    parts: z.array(z.looseObject({ type: z.string() })).optional(),
    exact: json.optional(),
    schema: z.array(z.strictObject({ part: text, schema: record })).optional(),
    called: called.optional(),
    notCalled: called.optional(),
  }),
  source: z.strictObject({ session: z.string(), turn: text }).optional(),
});

export function promptHash(text: string): string {
  return hash("sha256", text, "hex");
}

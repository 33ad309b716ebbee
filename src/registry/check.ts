import { effects } from "../core/effect.ts";
import { messageOf } from "../core/errors.ts";
import { CALL_VARIABLES, compileCondition } from "../core/expression.ts";
import { clip, isRecord } from "../core/json.ts";
import { actionName } from "../core/names.ts";
import { nearest } from "../core/nearest.ts";
import { guardSchema } from "../core/schema-guard.ts";
import { type InputSchema, isStandardSchema, toJsonSchema } from "../core/standard-schema.ts";
import { placeholderProblem } from "./prose.ts";

/** One thing wrong with a registration. */
export interface FieldProblem {
  readonly field: string;
  readonly value: string;
  readonly problem: string;
}

/** `respond` ends an actor's turn; it is infrastructure and not a tool anyone may define. */
const RESERVED = new Set(["respond"]);

const KNOWN_FIELDS = [
  "name",
  "description",
  "inputSchema",
  "outputSchema",
  "handler",
  "scope",
  "routing",
  "bypassRouting",
  "justification",
  "requiresApproval",
  "tags",
  "peerExposed",
  "effect",
  "loading",
  "examples",
  "aliases",
  "timeout",
  "concurrency",
  "idempotent",
];

/** Everything wrong with it. The types say the same, but registrations also come from JavaScript and from casts. */
export function registrationProblems(tool: Record<string, unknown>): readonly FieldProblem[] {
  const problems: FieldProblem[] = [];
  const refuse = (field: string, problem: string): void => {
    problems.push({ field, value: shown(fieldOf(tool, field)), problem });
  };

  for (const field of Object.keys(tool)) {
    if (!KNOWN_FIELDS.includes(field)) refuse(field, `is no field of a registration${didYouMean(field, KNOWN_FIELDS)}`);
  }
  checkName(tool, refuse);
  if (typeof tool.description !== "string" || tool.description.trim() === "")
    refuse("description", "is empty: the model chooses by it");
  if (typeof tool.handler !== "function") refuse("handler", "is not a function");
  oneOf(tool, "effect", effects, refuse);
  oneOf(tool, "scope", ["generalist", "specialist"], refuse);
  if (tool.routing !== undefined) oneOf(tool, "routing", ["routed", "bypass"], refuse);
  if (tool.loading !== undefined) oneOf(tool, "loading", ["always", "deferred"], refuse);
  checkOwnership(tool, refuse);
  checkSchema(tool, "inputSchema", refuse);
  if (tool.outputSchema !== undefined) checkSchema(tool, "outputSchema", refuse);
  checkApproval(tool, refuse);
  strings(tool, "tags", refuse);
  strings(tool, "aliases", refuse);
  if (tool.peerExposed !== undefined && typeof tool.peerExposed !== "boolean")
    refuse("peerExposed", "is neither true nor false");
  if (tool.idempotent !== undefined && typeof tool.idempotent !== "boolean")
    refuse("idempotent", "is neither true nor false");
  for (const field of ["timeout", "concurrency"]) {
    const value = tool[field];
    if (value !== undefined && !(Number.isSafeInteger(value) && Number(value) > 0))
      refuse(field, "is not a whole number above 0");
  }
  if (
    tool.examples !== undefined &&
    !(Array.isArray(tool.examples) && tool.examples.every((each) => isRecord(each) && isRecord(each.args)))
  ) {
    refuse("examples", "is not a list of {args, description?}");
  }
  return problems;
}

type Refuse = (field: string, problem: string) => void;

function checkName(tool: Record<string, unknown>, refuse: Refuse): void {
  if (typeof tool.name !== "string" || tool.name.trim() === "") return refuse("name", "is empty");
  if (RESERVED.has(tool.name.toLowerCase()))
    return refuse("name", "is reserved: every actor has it without registration");
  try {
    actionName("tool", tool.name);
  } catch (thrown) {
    refuse("name", messageOf(thrown));
  }
}

/** The three legal pairs of scope and routing, and what each needs. */
function checkOwnership(tool: Record<string, unknown>, refuse: Refuse): void {
  const bypass = tool.routing === "bypass";
  if (tool.scope === "generalist" && bypass) {
    refuse(
      "routing",
      "a generalist tool touches what is shared and always routes; make it a specialist or drop the bypass",
    );
  }
  if (tool.scope === "specialist") {
    const problem = placeholderProblem(tool.justification);
    if (problem !== undefined) refuse("justification", `${problem}: say why this work is private to one actor`);
    if (tool.peerExposed === true) refuse("peerExposed", "a specialist tool is private and cannot be offered to peers");
  }
  if (bypass) {
    const problem = placeholderProblem(fieldOf(tool, "bypassRouting.reason"));
    if (problem !== undefined) refuse("bypassRouting.reason", `${problem}: say why this call must not be routed`);
  } else if (tool.bypassRouting !== undefined) {
    refuse("bypassRouting", 'is given, but routing is not "bypass"');
  }
}

function checkSchema(tool: Record<string, unknown>, field: "inputSchema" | "outputSchema", refuse: Refuse): void {
  const schema = tool[field];
  if (!isRecord(schema) && !(typeof schema === "function" && isStandardSchema(schema as unknown as InputSchema))) {
    return refuse(field, "is not a schema: give JSON Schema of an object, or a Standard Schema");
  }
  try {
    guardSchema(toJsonSchema(schema as InputSchema), field === "inputSchema" ? "arguments" : "result");
  } catch (thrown) {
    refuse(field, messageOf(thrown));
  }
}

function checkApproval(tool: Record<string, unknown>, refuse: Refuse): void {
  const rule = tool.requiresApproval;
  if (rule === undefined || typeof rule === "boolean" || typeof rule === "function") return;
  if (!isRecord(rule) || typeof rule.autoApproveIf !== "string") {
    return refuse("requiresApproval", 'is none of false, true, {autoApproveIf: "<CEL>"} or a function');
  }
  try {
    compileCondition(rule.autoApproveIf, CALL_VARIABLES);
  } catch (thrown) {
    refuse("requiresApproval.autoApproveIf", messageOf(thrown));
  }
}

function oneOf(tool: Record<string, unknown>, field: string, allowed: readonly string[], refuse: Refuse): void {
  const value = tool[field];
  if (typeof value === "string" && allowed.includes(value)) return;
  refuse(field, `is none of ${allowed.join(", ")}${typeof value === "string" ? didYouMean(value, allowed) : ""}`);
}

function strings(tool: Record<string, unknown>, field: string, refuse: Refuse): void {
  const value = tool[field];
  if (value === undefined) return;
  if (
    !Array.isArray(value) ||
    !value.every((each) => typeof each === "string" && each.trim() !== "" && each.length <= 256)
  ) {
    refuse(field, "is not a list of non-empty strings");
  }
}

function didYouMean(text: string, allowed: readonly string[]): string {
  const near = nearest(text, allowed);
  return near === undefined ? "" : `; did you mean ${near}?`;
}

function fieldOf(tool: Record<string, unknown>, path: string): unknown {
  return path.split(".").reduce<unknown>((part, key) => (isRecord(part) ? part[key] : undefined), tool);
}

function shown(value: unknown): string {
  if (value === undefined) return "nothing";
  if (typeof value === "function") return "a function";
  try {
    return clip(JSON.stringify(value) ?? String(value), 80);
  } catch {
    return "something that cannot be shown";
  }
}

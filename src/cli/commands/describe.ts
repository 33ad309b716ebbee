import type { Command } from "commander";
import { isRecord } from "../../core/json.ts";
import type { ActionDescription } from "../../surface/universal/describe-action.ts";
import { type Context, callerOf, withWorkspace } from "../context.ts";
import { requireListed } from "../kept-not-listed.ts";
import { examples } from "../options.ts";
import type { Output } from "../output.ts";
import { oneLine, plain, safeJson, shellQuoted } from "../text.ts";

export function addDescribe(program: Command, context: Context): void {
  program
    .command("describe")
    .summary("show one action: arguments, effect, examples")
    .description("Show everything a caller may know of one action.")
    .argument("<action>", "its name, as in `qm list`")
    .addHelpText("after", examples("qm describe file__read", "qm describe file__read --json"))
    .action(async (action: string) => {
      await requireListed(action);
      await withWorkspace(context, "looking", ({ quartermaster }) => {
        const found = quartermaster.describe(action, callerOf(context.globals));
        if (context.out.isJson) context.out.json(found);
        else show(context.out, found);
      });
    });
}

function show(
  out: Output,
  { qualified_name, description, input_schema, examples: calls, metadata }: ActionDescription,
) {
  out.line(out.bold(oneLine(qualified_name)));
  out.line(plain(description));
  out.line();
  showArguments(out, input_schema);
  const { purity, idempotent, approval, tags, canonical_default } = metadata;
  const facts = [
    ["effect", idempotent ? `${purity}, and twice is the same as once` : purity],
    ["approval", approval],
    ...(tags.length > 0 ? [["tags", tags.join(", ")]] : []),
    ...(canonical_default === undefined ? [] : [["invoking it", canonical_default]]),
  ];
  out.table(["", ""], facts);
  if (calls.length > 0) {
    out.line();
    out.line(out.bold("Examples"));
  }
  for (const { args, description: about } of calls) {
    const comment = about === undefined ? "" : out.dim(`   # ${oneLine(about)}`);
    out.line(`  qm invoke ${shellQuoted(qualified_name)} ${plain(shellQuoted(safeJson(args)))}${comment}`);
  }
}

function showArguments(out: Output, schema: ActionDescription["input_schema"]): void {
  const properties = isRecord(schema.properties) ? Object.entries(schema.properties) : [];
  const required = Array.isArray(schema.required) ? schema.required : [];
  if (properties.length === 0) {
    out.line("It takes no arguments.");
  } else {
    out.line(out.bold("Arguments"));
    for (const [name, property] of properties) {
      out.line(
        `  ${oneLine(name)}${out.dim(`  ${oneLine(typeOf(property))}, ${oneLine(need(name, property, required))}`)}`,
      );
      const meaning = about(property);
      if (meaning !== "") out.line(`      ${oneLine(meaning)}`);
    }
  }
  out.line();
}

function typeOf(schema: unknown): string {
  if (!isRecord(schema)) return "anything";
  if (Array.isArray(schema.enum)) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  for (const branches of [schema.anyOf, schema.oneOf])
    if (Array.isArray(branches)) return branches.map(typeOf).join(" | ");
  if (schema.type === "array") return `list of ${typeOf(schema.items)}`;
  return Array.isArray(schema.type) ? schema.type.join(" | ") : String(schema.type ?? "anything");
}

function need(name: string, schema: unknown, required: readonly unknown[]): string {
  if (isRecord(schema) && schema.default !== undefined) return `default ${JSON.stringify(schema.default)}`;
  return required.includes(name) ? "required" : "optional";
}

function about(schema: unknown): string {
  return isRecord(schema) && typeof schema.description === "string" ? schema.description : "";
}

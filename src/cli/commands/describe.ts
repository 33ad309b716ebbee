import type { Command } from "commander";
import { QmError } from "../../core/errors.ts";
import { isRecord } from "../../core/json.ts";
import type { Explanation } from "../../index.ts";
import type { ActionDescription } from "../../surface/universal/browse-actions.ts";
import { type CommandContext, toCallerOptions, withWorkspace } from "../context.ts";
import { exitCodes } from "../exit-codes.ts";
import { formatExamples } from "../option-parsers.ts";
import type { CommandOutput } from "../output.ts";
import { escapeUnsafe, quoteShellWord, safeJson, toOneLine } from "../terminal-text.ts";

/** Throws for a handle: notes and collections are not in the catalog, and have a command of their own. */
async function requireCatalogName(name: string): Promise<void> {
  const { parseHandle } = await import("../../infospace/note.ts");
  if (parseHandle(name) === undefined) return;
  throw new QmError("not_found", `${name} is not in the catalog: it is something kept`, {
    hint: `See it with: qm notes show ${name}. What a caller may do with it, the policy says of ${name} and of infospace__load.`,
  });
}

/** What an operator would do in the configuration to let the action through: one line for each layer in its way. */
export function suggestPolicyChanges(explanation: Explanation, configPath: string | undefined): readonly string[] {
  const objecting = explanation.layers.filter(({ says }) => says !== "nothing");
  if (objecting.length === 0 && explanation.because !== undefined)
    return ["It appears when the caller sees an action that it serves."];
  if (objecting.length === 0)
    return [`Nothing stands in its way before it is called; ${JUDGED_LATER} are judged then.`];
  const changes = objecting.map(
    ({ layer, rule = "", about = explanation.action }) => `  ${suggestChange(layer, rule, about, explanation.actor)}`,
  );
  return [
    `To change that, in ${configPath ?? "quartermaster.yaml (`qm init` writes one)"}:`,
    ...changes,
    `When it is called, ${JUDGED_LATER} are judged too.`,
  ];
}

const JUDGED_LATER = "rules about arguments, budgets and approval conditions";

type Layer = Explanation["layers"][number]["layer"];

function suggestChange(layer: Layer, rule: string, action: string, actor: string): string {
  switch (layer) {
    case "tool-policy":
      return suggestToolPolicyChange(rule, action);
    case "gates":
      return `bring about what the gate waits for (${rule})`;
    case "tag-rules":
      return `change or remove the rule ${JSON.stringify(rule)} of policy.rules`;
    case "visibility":
      return "it is the visibility policy of the host program: change it there";
    case "actor":
      return suggestActorChange(rule, action, actor);
    case "budget":
      return `raise policy.budgets.${rule}`;
    case "approval":
      return "the action itself asks for a person's approval: change where it is registered";
  }
}

function suggestToolPolicyChange(rule: string, action: string): string {
  const denied = /denied: (.*)$/.exec(rule)?.[1];
  if (denied !== undefined) return `take ${JSON.stringify(denied)} out of policy.denied`;
  const tag = /require_tags: (.*)$/.exec(rule)?.[1];
  if (tag !== undefined) return `the action has no tag ${JSON.stringify(tag)}: take that out of policy.require_tags`;
  return `add ${JSON.stringify(action)} to policy.allowed`;
}

function suggestActorChange(rule: string, action: string, actor: string): string {
  return rule.startsWith("no actor")
    ? `add the actor: actors.${actor}, with tools: [${JSON.stringify(action)}]`
    : `add ${JSON.stringify(action)} to actors.${actor}.tools`;
}

export function addExplainCommand(program: Command, context: CommandContext): void {
  program
    .command("explain")
    .summary("show why an action is there for a caller, or is not")
    .description("Show what each layer of the policy says about an action, and what to change.")
    .argument("<action>", "its full name, whether the caller sees it or not")
    .addHelpText("after", formatExamples("qm explain file__write", "qm explain file__write --actor reviewer"))
    .action(async (action: string) => {
      await requireCatalogName(action);
      await withWorkspace(context, "looking", ({ quartermaster, configPath }) => {
        const explanation = quartermaster.explain(action, toCallerOptions(context.globals));
        if (!explanation.exists) context.end(exitCodes.unknown);
        if (context.out.isJson) context.out.json(explanation);
        else showExplanation(context.out, explanation, configPath);
      });
    });
}

function showExplanation(out: CommandOutput, explanation: Explanation, configPath: string | undefined): void {
  const { exists, nearest, layers, because } = explanation;
  const action = toOneLine(explanation.action);
  if (!exists) {
    out.line(`${out.bold(action)} does not exist, for anybody.`);
    out.line(nearest === undefined ? "`qm list` shows the names." : `Did you mean ${toOneLine(nearest)}?`);
    return;
  }
  out.line(`${out.bold(action)} for actor ${toOneLine(explanation.actor)}: ${formatVerdict(out, explanation)}`);
  out.line();
  out.table(
    ["layer", "says", "because of"],
    layers.map(({ layer, says, rule = "" }) => [
      { text: layer, paint: layer === because?.layer ? out.bold : (text) => text },
      { text: says, paint: says === "nothing" ? out.dim : says === "ask" ? out.warn : out.bad },
      rule,
    ]),
  );
  out.line();
  for (const change of suggestPolicyChanges(explanation, configPath)) out.line(escapeUnsafe(change));
}

function formatVerdict(out: CommandOutput, { visible, decision }: Explanation): string {
  if (!visible) return out.bad("hidden, as if it did not exist");
  switch (decision) {
    case "allow":
      return out.good("allowed");
    case "ask":
      return out.warn("seen, but a person must agree to each call");
    default:
      return out.bad("seen, but denied");
  }
}

export function addDescribeCommand(program: Command, context: CommandContext): void {
  program
    .command("describe")
    .summary("show one action: arguments, effect, examples")
    .description("Show everything a caller may know of one action.")
    .argument("<action>", "its name, as in `qm list`")
    .addHelpText("after", formatExamples("qm describe file__read", "qm describe file__read --json"))
    .action(async (action: string) => {
      await requireCatalogName(action);
      await withWorkspace(context, "looking", ({ quartermaster }) => {
        const found = quartermaster.describe(action, toCallerOptions(context.globals));
        if (context.out.isJson) context.out.json(found);
        else showDescription(context.out, found);
      });
    });
}

function showDescription(
  out: CommandOutput,
  { qualified_name, description, input_schema, examples: calls, metadata }: ActionDescription,
) {
  out.line(out.bold(toOneLine(qualified_name)));
  out.line(escapeUnsafe(description));
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
    const comment = about === undefined ? "" : out.dim(`   # ${toOneLine(about)}`);
    out.line(`  qm invoke ${quoteShellWord(qualified_name)} ${escapeUnsafe(quoteShellWord(safeJson(args)))}${comment}`);
  }
}

function showArguments(out: CommandOutput, schema: ActionDescription["input_schema"]): void {
  const properties = isRecord(schema.properties) ? Object.entries(schema.properties) : [];
  const required = Array.isArray(schema.required) ? schema.required : [];
  if (properties.length === 0) {
    out.line("It takes no arguments.");
  } else {
    out.line(out.bold("Arguments"));
    for (const [name, property] of properties) {
      out.line(
        `  ${toOneLine(name)}${out.dim(`  ${toOneLine(formatType(property))}, ${toOneLine(formatNeed(name, property, required))}`)}`,
      );
      const meaning = getDescription(property);
      if (meaning !== "") out.line(`      ${toOneLine(meaning)}`);
    }
  }
  out.line();
}

function formatType(schema: unknown): string {
  if (!isRecord(schema)) return "anything";
  if (Array.isArray(schema.enum)) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  for (const branches of [schema.anyOf, schema.oneOf])
    if (Array.isArray(branches)) return branches.map(formatType).join(" | ");
  if (schema.type === "array") return `list of ${formatType(schema.items)}`;
  return Array.isArray(schema.type) ? schema.type.join(" | ") : String(schema.type ?? "anything");
}

function formatNeed(name: string, schema: unknown, required: readonly unknown[]): string {
  if (isRecord(schema) && schema.default !== undefined) return `default ${JSON.stringify(schema.default)}`;
  return required.includes(name) ? "required" : "optional";
}

function getDescription(schema: unknown): string {
  return isRecord(schema) && typeof schema.description === "string" ? schema.description : "";
}

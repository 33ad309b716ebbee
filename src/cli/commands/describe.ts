import type { Command } from "commander";
import { escapeUnsafe, quoteShellWord, toOneLine } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { getOwn, isRecord, omitUndefined } from "../../core/json.ts";
import { SEPARATOR } from "../../core/names.ts";
import type { Explanation } from "../../index.ts";
import type { ActionDescription } from "../../surface/universal/browse-actions.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type Context, toCallerOptions, withWorkspace } from "../context.ts";
import { exitCodes } from "../exit-codes.ts";
import { examples } from "../option-parsers.ts";
import { type CommandOutput, formatPendingServers } from "../output.ts";
import { safeJson } from "../terminal-text.ts";

export function addDescribeCommand(program: Command, context: Context): void {
  program
    .command("describe")
    .summary("show one action: arguments, effect, examples")
    .description("Show everything a caller may know about one action.")
    .argument("<action>", "its name, as in `qm list`")
    .addHelpText(...examples("qm describe file__read", "qm describe file__read --json"))
    .action(async (action: string) => {
      requireCatalogName(action);
      await withWorkspace(context, "looking", ({ quartermaster }) => {
        const found = quartermaster.describe(action, toCallerOptions(context.globals));
        if (context.out.isJson) context.out.json(found);
        else showDescription(context.out, found);
      });
    });
}

export function addExplainCommand(program: Command, context: Context): void {
  program
    .command("explain")
    .summary("show why a caller may or may not use an action")
    .description("Show what each policy layer says about an action, and what to change in the configuration.")
    .argument("<action>", "its full name, visible to the caller or not")
    .addHelpText(...examples("qm explain file__write", "qm explain file__write --actor reviewer"))
    .action(async (action: string) => {
      requireCatalogName(action);
      await withWorkspace(context, "looking", ({ quartermaster, configPath, config }) => {
        const caller = toCallerOptions(context.globals);
        const explanation = quartermaster.explain(action, caller);
        const { state, state_reason } = explanation.visible ? quartermaster.describe(action, caller).metadata : {};
        if (!explanation.exists) context.end(exitCodes.unknown);
        if (context.out.isJson) context.out.json({ ...explanation, ...omitUndefined({ state, state_reason }) });
        else {
          showExplanation(context.out, explanation, configPath);
          const setting = explanation.exists ? undefined : findSwitchedOff(config, action);
          if (setting !== undefined) context.out.line(`Its category is switched off: set ${setting}: true.`);
          if (state !== undefined && state !== "not_started") showObstacle(context.out, action, state, state_reason);
        }
      });
    });
}

/** The key that switches a category on. `name`: the category, or an action of it. Undefined: it is on, or no key does that. */
export function findSwitchedOff({ providers }: Workspace["config"], name: string): string | undefined {
  const settings = new Map<string, keyof Workspace["config"]["providers"]>([
    ["exec", "exec"],
    ["file", "file"],
    ["memory_operation", "memory"],
    ["qm_source", "source"],
    ["rag_operation", "rag"],
    ["web", "web"],
  ]);
  const key = settings.get(getCategoryPart(name));
  return key === undefined || providers[key].enabled ? undefined : `providers.${key}.enabled`;
}

/** The commands that list resources. These depend on the caller, so the catalog has none of them. */
const liveCategories: Readonly<Record<string, string>> = {
  note: "qm notes list",
  collection: "qm notes list",
  memory_entry: "qm memory list",
  rag_corpus: "qm invoke rag_operation__list",
};

/** The command that lists the entries of a category, or an action's, if they are not in the catalog. */
export const findListCommand = (name: string): string | undefined => getOwn(liveCategories, getCategoryPart(name));

const getCategoryPart = (name: string): string => name.split(SEPARATOR, 1)[0] ?? "";

function requireCatalogName(name: string): void {
  const command = findListCommand(name);
  if (command === undefined) return;
  throw new QmError("not_found", `${toOneLine(name)} is not in the catalog, because it depends on the caller`, {
    hint: `\`${command}\` shows what there is. Policy rules can name it.`,
  });
}

function showDescription(out: CommandOutput, action: ActionDescription): void {
  const { qualified_name, description, input_schema, examples, metadata } = action;
  out.line(out.bold(toOneLine(qualified_name)), escapeUnsafe(description));
  out.line();
  showArguments(out, input_schema);
  const { purity, idempotent, approval, tags, canonical_default, source, world, state, state_reason } = metadata;
  out.table(
    ["", ""],
    [
      ...(state === undefined ? [] : [["state", formatState(state, state_reason)]]),
      ["effect", idempotent ? `${purity}, idempotent` : purity],
      ["approval", approval],
      ["source", source],
      ...(world === undefined || world === source ? [] : [["world", world]]),
      ...listScopeReasons(metadata.justification, metadata.bypass_reason),
      ...(tags.length > 0 ? [["tags", tags.join(", ")]] : []),
      ...(canonical_default === undefined ? [] : [["invoking it", canonical_default]]),
    ],
  );
  if (examples.length > 0) {
    out.line("", out.bold("Examples"));
  }
  for (const { args, description: about } of examples) {
    const comment = about === undefined ? "" : out.dim(`   # ${toOneLine(about)}`);
    out.line(`  qm invoke ${quoteShellWord(qualified_name)} ${escapeUnsafe(quoteShellWord(safeJson(args)))}${comment}`);
  }
}

const formatState = (state: string, reason: string | undefined): string =>
  [state.replaceAll("_", " "), reason ?? []].flat().join(": ");

/** Why only one actor has the action, and why its calls are not routed, as rows of a table. */
export function listScopeReasons(justification: string | undefined, bypassReason: string | undefined) {
  const rows = [
    ["specialist", justification],
    ["not routed", bypassReason],
  ] as const;
  return rows.flatMap(([title, reason]) => (reason === undefined ? [] : [[title, toOneLine(reason)]]));
}

function showArguments(out: CommandOutput, schema: ActionDescription["input_schema"]): void {
  const properties = isRecord(schema.properties) ? Object.entries(schema.properties) : [];
  const required: readonly unknown[] = Array.isArray(schema.required) ? schema.required : [];
  out.line(properties.length === 0 ? "It takes no arguments." : out.bold("Arguments"));
  for (const [name, property] of properties) {
    const { default: preset, description } = isRecord(property) ? property : {};
    const need =
      preset === undefined ? (required.includes(name) ? "required" : "optional") : `default ${JSON.stringify(preset)}`;
    out.line(`  ${toOneLine(name)}${out.dim(`  ${toOneLine(formatType(property))}, ${toOneLine(need)}`)}`);
    if (typeof description === "string" && description !== "") out.line(`      ${toOneLine(description)}`);
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

function showObstacle(out: CommandOutput, action: string, state: string, reason: string | undefined): void {
  const isWithheldSkill = state === "quarantined" && action.startsWith(SKILL_PREFIX);
  const step = isWithheldSkill ? ` Run \`${formatTrustCommand(action)}\`.` : "";
  out.line(
    "",
    `${out.warn(`It cannot be used now. ${toOneLine(formatState(state, reason)).replace(/\.$/, "")}.`)}${step}`,
  );
}

const SKILL_PREFIX = "skill__";

export const formatTrustCommand = (action: string): string =>
  `qm skills trust ${quoteShellWord(action.slice(SKILL_PREFIX.length))}`;

/** Whether only a person who has seen the skill is missing. */
export const needsAcceptance = ({ action, because }: Pick<Explanation, "action" | "because">): boolean =>
  action.startsWith(SKILL_PREFIX) && because?.needsAcceptance === true;

function showExplanation(out: CommandOutput, explanation: Explanation, configPath: string | undefined): void {
  const { exists, pending, nearest, layers, because } = explanation;
  const action = toOneLine(explanation.action);
  if (pending !== undefined) {
    out.line(`${out.bold(action)} cannot be explained yet.`, formatPendingServers([pending]));
    return;
  }
  if (!exists) {
    out.line(`${out.bold(action)} does not exist for any caller.`);
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
    { whole: [0, 2] },
  );
  const reasons = listScopeReasons(explanation.justification, explanation.bypassReason);
  for (const [title, reason] of reasons) out.line("", `${title}: ${reason}`);
  out.line();
  for (const change of suggestPolicyChanges(explanation, configPath)) out.line(escapeUnsafe(change));
}

function formatVerdict(out: CommandOutput, explanation: Explanation): string {
  const { visible, decision } = explanation;
  if (!visible) return out.bad("hidden, as if it did not exist");
  if (decision === "allow") return out.good("allowed");
  if (decision === "ask" && needsAcceptance(explanation))
    return out.warn("visible, but a person must accept it at its first use");
  if (decision === "ask") return out.warn("visible, but a person must agree to each call");
  return out.bad("visible, but denied");
}

const CHECKED_PER_CALL = "rules about arguments, budgets and approval conditions";

/** Lists the changes that would allow the action: of the configuration, one line for each layer that objects, and of trust. */
export function suggestPolicyChanges(explanation: Explanation, configPath: string | undefined): readonly string[] {
  const { layers, because, action, actor } = explanation;
  const objecting = layers.filter(({ says }) => says !== "nothing");
  if (objecting.length === 0)
    return because === undefined
      ? [`No layer objects. Each call is still checked against ${CHECKED_PER_CALL}.`]
      : ["It appears when the caller sees an action that it serves."];
  const others = objecting.filter(({ needsAcceptance }) => needsAcceptance !== true);
  const lines = others.map((objection) => `  ${suggestChange(objection, objection.about ?? action, actor)}`);
  return [
    ...(others.length < objecting.length ? [`To trust the skill, run \`${formatTrustCommand(action)}\`.`] : []),
    ...(lines.length === 0
      ? []
      : [`To change that, in ${configPath ?? "quartermaster.yaml (`qm init` writes one)"}:`, ...lines]),
    `Each call is also checked against ${CHECKED_PER_CALL}.`,
  ];
}

type LayerObjection = Explanation["layers"][number];

function suggestChange(objection: LayerObjection, action: string, actor: string): string {
  const { layer, rule = "", world, setting } = objection;
  const quoted = JSON.stringify(action);
  const changes: Readonly<Record<LayerObjection["layer"], string>> = {
    "tool-policy": suggestToolPolicyChange(objection, quoted),
    gates: setting === undefined ? `satisfy the gate (${rule})` : `set ${setting}: true`,
    "tag-rules": `change or remove the rule ${JSON.stringify(rule)} of policy.rules`,
    visibility: "change the visibility policy of the host program",
    actor: `add ${quoted} to actors.${actor}.tools`,
    world: `set actors.${actor}.world: ${world}`,
    budget: `raise ${rule.startsWith("actors.") ? "" : "policy.budgets."}${rule}`,
    approval: "the action itself requires approval: change where it is registered",
  };
  return changes[layer];
}

function suggestToolPolicyChange({ list, entry = "" }: LayerObjection, quoted: string): string {
  if (list === "allowed") return `add ${quoted} to policy.allowed`;
  if (list === "denied") return `take ${JSON.stringify(entry)} out of policy.denied`;
  return `the action has no tag ${JSON.stringify(entry)}: take that out of policy.require_tags`;
}

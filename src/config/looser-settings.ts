import { canonicalJson, getOwn } from "../core/json.ts";
import type { Config } from "./schema.ts";

/**
 * What the new configuration allows that the old one did not, one sentence each. A changed condition is reported too:
 * nobody can tell in general which of two conditions holds more often.
 */
export function findLooserSettings(before: Config, after: Config): readonly string[] {
  return [
    ...comparePolicy(before.policy, after.policy),
    ...compareRules(before.policy.rules, after.policy.rules),
    ...compareBudgets(before.policy.budgets, after.policy.budgets),
    ...compareActors(before.actors, after.actors),
    ...compareApprovals(before.approvals, after.approvals),
    ...compareFiles(before.providers.file, after.providers.file),
    ...Object.entries(after.servers).flatMap(([name, server]) =>
      Object.hasOwn(before.servers, name) ? compareServer(`servers.${name}`, before.servers[name], server) : [],
    ),
    ...findMissing(after.secrets, before.secrets).map((each) => `secrets no longer lists ${each}`),
  ];
}

function comparePolicy(before: Config["policy"], after: Config["policy"]): readonly string[] {
  const allowed =
    before.allowed === undefined
      ? []
      : after.allowed === undefined
        ? ["policy.allowed is gone, so every action is allowed"]
        : findMissing(before.allowed, after.allowed).map((each) => `policy.allowed also lists ${quote(each)}`);
  return [
    ...findMissing(after.denied, before.denied).map((each) => `policy.denied no longer lists ${quote(each)}`),
    ...allowed,
    ...findMissing(after.requireTags, before.requireTags).map(
      (each) => `policy.require_tags no longer lists ${quote(each)}`,
    ),
  ];
}

type Rules = Config["policy"]["rules"];

const strength = { hide: 2, deny: 1, ask: 0 } as const;

function compareRules(before: Rules, after: Rules): readonly string[] {
  return before.flatMap((old) => {
    const { name, rule, effect } = old;
    // A rule that was only renamed still holds.
    const same = after.find((each) => each.rule === rule && strength[each.effect] >= strength[effect]);
    const next = same ?? after.find((each) => each.name === name);
    if (next === undefined) return [`the rule ${quote(name)} (${effect}) is gone`];
    if (strength[next.effect] < strength[effect])
      return [`the rule ${quote(name)} has the effect ${next.effect} instead of ${effect}`];
    if (next.rule !== rule) return [`the rule ${quote(name)} has another condition`];
    return next.effect === "ask" ? compareLevel(`the rule ${quote(name)}`, old, next) : [];
  });
}

function compareLevel(what: string, before: { level?: string | undefined }, after: { level?: string | undefined }) {
  const [old, next] = [before.level ?? "user", after.level ?? "user"];
  return old === next || next === "admin" ? [] : [`${what} asks the level ${quote(next)} instead of ${quote(old)}`];
}

type Budgets = Config["policy"]["budgets"];

function compareBudgets(before: Budgets, after: Budgets): readonly string[] {
  return (["turn", "session", "tenant"] as const).flatMap((scope) =>
    (["calls", "ms", "bytes"] as const).flatMap((kind) => {
      const [old, next] = [before[scope]?.[kind], after[scope]?.[kind]];
      const key = `policy.budgets.${scope}.${kind}`;
      if (old === undefined) return [];
      if (next === undefined) return [`${key} is gone, so there is no limit`];
      return next > old ? [`${key} rose from ${old} to ${next}`] : [];
    }),
  );
}

function compareActors(before: Config["actors"], after: Config["actors"]): readonly string[] {
  return Object.entries(after).flatMap(([name, actor]) => {
    const key = `actors.${name}`;
    const old = Object.hasOwn(before, name) ? before[name] : undefined;
    if (old === undefined) return [`${key} is new`];
    const isSame = canonicalJson([old.scope, old.attributes]) === canonicalJson([actor.scope, actor.attributes]);
    return [
      ...findMissing(old.tools, actor.tools).map((each) => `${key}.tools also lists ${quote(each)}`),
      ...(isSame ? [] : [`${key} has another scope or other attributes, which rules compare`]),
    ];
  });
}

type Approvals = Config["approvals"];

function compareApprovals(before: Approvals, after: Approvals): readonly string[] {
  return [
    ...(!before.allowSelf && after.allowSelf ? ["approvals.allow_self lets users agree to their own calls"] : []),
    ...(!before.askClient && after.askClient ? ["approvals.ask_client lets MCP clients answer"] : []),
    ...Object.entries(before.categories).flatMap(([category, rule]) =>
      compareCategory(category, rule, getOwn(after.categories, category) ?? false),
    ),
    ...compareRoles("approvals.levels", before.levels, after.levels, "changes who may agree"),
    ...(Object.keys(before.approvers).length > 0 && Object.keys(after.approvers).length === 0
      ? ["approvals.approvers is empty, so everyone at this machine's command line has every role"]
      : compareRoles("approvals.approvers", before.approvers, after.approvers, "is new")),
  ];
}

type CategoryRule = Approvals["categories"][string];

function compareCategory(category: string, before: CategoryRule, after: CategoryRule): readonly string[] {
  const key = `approvals.categories.${category}`;
  if (before === false || after === true) return [];
  if (after === false) return [`${key} no longer asks`];
  if (before === true) return [`${key} asks only where its condition is false`];
  return before.autoApproveIf === after.autoApproveIf
    ? compareLevel(key, before, after)
    : [`${key} has another condition`];
}

type Roles = Readonly<Record<string, { readonly roles: readonly string[] }>>;

function compareRoles(key: string, before: Roles, after: Roles, added: string): readonly string[] {
  return Object.entries(after).flatMap(([name, { roles }]) => {
    const old = Object.hasOwn(before, name) ? before[name] : undefined;
    if (old === undefined) return [`${key}.${name} ${added}`];
    return findMissing(old.roles, roles).map((role) => `${key}.${name} also has the role ${quote(role)}`);
  });
}

type Files = Config["providers"]["file"];

function compareFiles(before: Files, after: Files): readonly string[] {
  if (!after.enabled) return [];
  if (!before.enabled) return ["providers.file.enabled brings the category file"];
  return [
    ...(before.readOnly && !after.readOnly ? ["providers.file.read_only is off, so files can be changed"] : []),
    ...(before.root === after.root ? [] : ["providers.file.root is another folder"]),
  ];
}

type Server = Config["servers"][string];

function compareServer(key: string, before: Server | undefined, after: Server): readonly string[] {
  if (before === undefined) return [];
  return [
    ...(!before.enabled && after.enabled ? [`${key}.enabled brings its tools`] : []),
    ...(before.pin && !after.pin ? [`${key}.pin is off, so changed tools are not withheld`] : []),
    ...(!before.trustAnnotations && after.trustAnnotations
      ? [`${key}.trust_annotations believes the server about its tools' effects`]
      : []),
    ...Object.entries(before.tools).flatMap(([tool, old]) =>
      compareTool(`${key}.tools.${tool}`, old, getOwn(after.tools, tool)),
    ),
  ];
}

type ToolOverride = Server["tools"][string];

function compareTool(key: string, before: ToolOverride, after: ToolOverride | undefined): readonly string[] {
  const forms = Object.entries(before.arguments).filter(
    ([argument, form]) => getOwn(after?.arguments ?? {}, argument) !== form,
  );
  return [
    ...(!before.enabled && after?.enabled !== false ? [`${key} is offered`] : []),
    ...(before.approval === true && after?.approval !== true ? [`${key}.approval no longer asks`] : []),
    ...(before.effect !== undefined && before.effect !== after?.effect
      ? [`${key}.effect is no longer ${before.effect}`]
      : []),
    ...findMissing(after?.tags ?? [], before.tags).map((tag) => `${key}.tags no longer lists ${quote(tag)}`),
    ...forms.map(([argument, form]) => `${key}.arguments.${argument} no longer has the form ${form}`),
  ];
}

/** The values of `list` that `reference` lacks. */
function findMissing(reference: readonly string[], list: readonly string[]): readonly string[] {
  return list.filter((each) => !reference.includes(each));
}

const quote = (text: string): string => JSON.stringify(text);

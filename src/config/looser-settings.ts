import { canonicalJson, getOwn } from "../core/json.ts";
import type { SandboxConfig } from "./sandbox-schema.ts";
import type { Config } from "./schema.ts";

/** Lists what the new configuration newly allows, and every changed condition: they cannot be compared in general. */
export function findLooserSettings(before: Config, after: Config): readonly string[] {
  return [
    ...comparePolicy(before.policy, after.policy),
    ...compareGates(before.policy.gates, after.policy.gates),
    ...compareRules(before.policy.rules, after.policy.rules),
    ...compareBudgets("policy.budgets", before.policy.budgets, after.policy.budgets),
    ...compareActors(before.actors, after.actors),
    ...compareWorlds(before, after),
    ...compareApprovals(before.approvals, after.approvals),
    ...compareFiles(before.providers.file, after.providers.file),
    ...compareWeb(before.providers.web, after.providers.web),
    ...compareExec(before.providers.exec, after.providers.exec),
    ...when(
      !before.providers.memory.enabled && after.providers.memory.enabled,
      "providers.memory.enabled adds the categories memory_operation and memory_entry",
    ),
    ...when(
      !before.providers.rag.enabled && after.providers.rag.enabled,
      "providers.rag.enabled adds the categories rag_operation and rag_corpus",
    ),
    ...Object.entries(after.servers).flatMap(([name, server]) => {
      const old = getOwn(before.servers, name);
      return old === undefined ? [] : compareServer(`servers.${name}`, old, server);
    }),
    ...Object.entries(after.apis).flatMap(([name, api]) => compareApi(`apis.${name}`, getOwn(before.apis, name), api)),
    ...compareGrantingTags(before, after),
    ...findMissing(after.secrets, before.secrets).map((each) => `secrets no longer lists ${each}`),
  ];
}

function comparePolicy(before: Config["policy"], after: Config["policy"]): readonly string[] {
  return [
    ...listRemoved("policy.denied", before.denied, after.denied),
    ...(before.allowed === undefined
      ? []
      : after.allowed === undefined
        ? ["policy.allowed is gone, so every action is allowed"]
        : listAdded("policy.allowed", before.allowed, after.allowed)),
    ...listRemoved("policy.require_tags", before.requireTags, after.requireTags),
  ];
}

type Gates = Config["policy"]["gates"];

const compareGates = (before: Gates, after: Gates): readonly string[] =>
  Object.entries(before).flatMap(([name, old]) => {
    if (old.open) return [];
    const key = `policy.gates.${name}`;
    const next = getOwn(after, name);
    if (next === undefined) return [`${key} is gone`];
    return next.open ? [`${key} is open`] : listRemoved(`${key}.guards`, old.guards, next.guards);
  });

type Rules = Config["policy"]["rules"];
const strength = { hide: 2, deny: 1, ask: 0 } as const;

const compareRules = (before: Rules, after: Rules): readonly string[] =>
  before.flatMap((old) => {
    const { name, rule, effect } = old;
    const label = `the rule ${quote(name)}`;
    // A rule that was only renamed is still in force.
    const same = after.find((each) => each.rule === rule && strength[each.effect] >= strength[effect]);
    const next = same ?? after.find((each) => each.name === name);
    if (next === undefined) return [`${label} (${effect}) is gone`];
    if (strength[next.effect] < strength[effect])
      return [`${label} has the effect ${next.effect} instead of ${effect}`];
    if (next.rule !== rule) return [`${label} has another condition`];
    return next.effect === "ask" ? compareLevel(label, old, next) : [];
  });

function compareLevel(what: string, before: { readonly level?: string }, after: { readonly level?: string }) {
  const [old, next] = [before.level ?? "user", after.level ?? "user"];
  return when(old !== next && next !== "admin", `${what} asks the level ${quote(next)} instead of ${quote(old)}`);
}

type Budgets = Config["policy"]["budgets"];

const compareBudgets = (place: string, before: Budgets, after: Budgets): readonly string[] =>
  (["turn", "session", "tenant"] as const).flatMap((scope) =>
    (["calls", "ms", "bytes", "tokens", "cost"] as const).flatMap((kind) => {
      const [old, next] = [before[scope]?.[kind], after[scope]?.[kind]];
      const key = `${place}.${scope}.${kind}`;
      if (old === undefined) return [];
      if (next === undefined) return [`${key} is gone, so there is no limit`];
      return when(next > old, `${key} rose from ${old} to ${next}`);
    }),
  );

const compareActors = (before: Config["actors"], after: Config["actors"]): readonly string[] =>
  Object.entries(after).flatMap(([name, actor]) => {
    const key = `actors.${name}`;
    const old = getOwn(before, name);
    if (old === undefined) return [`${key} is new`];
    const isSame = canonicalJson([old.scope, old.attributes]) === canonicalJson([actor.scope, actor.attributes]);
    return [
      ...listAdded(`${key}.tools`, old.tools, actor.tools),
      ...compareBudgets(`${key}.budgets`, old.budgets ?? {}, actor.budgets ?? {}),
      ...when(!old.exposed && actor.exposed === true, `${key}.exposed lets other agents call it`),
      ...when(!isSame, `${key} has another scope or other attributes, which rules compare`),
    ];
  });

type Approvals = Config["approvals"];

function compareApprovals(before: Approvals, after: Approvals): readonly string[] {
  const isOpened = Object.keys(before.approvers).length > 0 && Object.keys(after.approvers).length === 0;
  return [
    ...when(!before.allowSelf && after.allowSelf, "approvals.allow_self lets users approve their own calls"),
    ...when(!before.askClient && after.askClient, "approvals.ask_client lets MCP clients answer"),
    ...Object.entries(before.categories).flatMap(([category, rule]) =>
      compareCategory(`approvals.categories.${category}`, rule, getOwn(after.categories, category) ?? false),
    ),
    ...compareRoles("approvals.levels", before.levels, after.levels, "changes who may approve"),
    ...(isOpened
      ? ["approvals.approvers is empty, so everyone at this machine's command line has every role"]
      : compareRoles("approvals.approvers", before.approvers, after.approvers, "is new")),
  ];
}

type CategoryRule = Approvals["categories"][string];

function compareCategory(key: string, before: CategoryRule, after: CategoryRule): readonly string[] {
  if (before === false || after === true) return [];
  if (after === false) return [`${key} no longer asks`];
  if (before === true) return [`${key} asks only where its condition is false`];
  if (before.autoApproveIf !== after.autoApproveIf) return [`${key} has another condition`];
  return compareLevel(key, before, after);
}

type Roles = Readonly<Record<string, { readonly roles: readonly string[] }>>;

const compareRoles = (key: string, before: Roles, after: Roles, added: string): readonly string[] =>
  Object.entries(after).flatMap(([name, { roles }]) => {
    const old = getOwn(before, name);
    if (old === undefined) return [`${key}.${name} ${added}`];
    return findMissing(old.roles, roles).map((role) => `${key}.${name} also has the role ${quote(role)}`);
  });

/** An action that leaves its last world is a core action, and one that joins a further world is seen there too. */
function compareWorlds(before: Config, after: Config): readonly string[] {
  const getWorld = ({ actors, world }: Config, name: string) => {
    const own = getOwn(actors, name)?.world;
    return own === undefined ? world : (own ?? undefined);
  };
  const hasOthers = Object.keys(before.worlds).length > 1;
  return [
    ...Object.entries(before.worlds).flatMap(([name, { actions }]) => {
      const next = getOwn(after.worlds, name);
      if (next === undefined) return [`worlds.${name} is gone`];
      const key = `worlds.${name}.actions`;
      return [...listRemoved(key, actions, next.actions), ...(hasOthers ? listAdded(key, actions, next.actions) : [])];
    }),
    ...Object.keys(after.actors).flatMap((name) => {
      const world = getWorld(after, name);
      const isNew = world !== undefined && world !== getWorld(before, name) && Object.hasOwn(before.actors, name);
      return when(isNew, `actors.${name} is in the world ${world}`);
    }),
  ];
}

type Files = Config["providers"]["file"];

function compareFiles(before: Files, after: Files): readonly string[] {
  if (!after.enabled) return [];
  if (!before.enabled) return ["providers.file.enabled adds the category file"];
  return [
    ...when(before.readOnly && !after.readOnly, "providers.file.read_only is off, so files can be changed"),
    ...when(before.root !== after.root, "providers.file.root is another folder"),
  ];
}

type Web = Config["providers"]["web"];

function compareWeb(before: Web, after: Web): readonly string[] {
  if (!after.enabled) return [];
  if (!before.enabled) return ["providers.web.enabled adds the category web"];
  return [
    ...listAdded("providers.web.allow_hosts", before.allowHosts, after.allowHosts),
    ...when(before.respectRobots && !after.respectRobots, "providers.web.respect_robots is off"),
  ];
}

type Exec = Config["providers"]["exec"];

function compareExec(before: Exec, after: Exec): readonly string[] {
  if (!after.enabled) return [];
  if (!before.enabled) return ["providers.exec.enabled adds the category exec"];
  const key = "providers.exec";
  return [
    ...when(!before.unisolated && after.unisolated, `${key}.unisolated runs programs without a sandbox`),
    ...when(before.folder !== after.folder, `${key}.folder is another folder`),
    ...compareSandbox(`${key}.sandbox`, before.sandbox, after.sandbox),
    ...when(
      before.maxTimeoutMs < after.maxTimeoutMs,
      `${key}.max_timeout_ms rose from ${before.maxTimeoutMs} to ${after.maxTimeoutMs}`,
    ),
    ...listAdded(`${key}.env`, Object.keys(before.env), Object.keys(after.env)),
    ...Object.entries(after.env)
      .filter(([name, value]) => (getOwn(before.env, name) ?? value) !== value)
      .map(([name]) => `${key}.env.${name} has another value`),
    ...listAdded(`${key}.allow_env`, before.allowEnv, after.allowEnv),
  ];
}

/** `undefined`: there is no sandbox. */
function compareSandbox(key: string, before: SandboxConfig | undefined, after: SandboxConfig | undefined) {
  if (before === undefined) return [];
  if (after === undefined) return [`${key} is gone, so nothing is isolated`];
  const limits = [
    ["memory_mb", before.memoryMb, after.memoryMb],
    ["processes", before.processes, after.processes],
    ["cpu_seconds", before.cpuSeconds ?? Number.POSITIVE_INFINITY, after.cpuSeconds ?? Number.POSITIVE_INFINITY],
    ["file_mb", before.fileMb, after.fileMb],
  ] as const;
  return [
    ...when(!before.network && after.network, `${key}.network lets programs use the network`),
    ...listAdded(`${key}.read`, before.read, after.read),
    ...listAdded(`${key}.write`, before.write, after.write),
    ...limits.flatMap(([name, old, next]) =>
      when(next > old, `${key}.${name} rose from ${old} to ${Number.isFinite(next) ? next : "no limit"}`),
    ),
  ];
}

type Server = Config["servers"][string];

function compareServer(key: string, before: Server, after: Server): readonly string[] {
  return [
    ...when(!before.enabled && after.enabled, `${key}.enabled adds its tools`),
    ...when(before.pin && !after.pin, `${key}.pin is off, so changed tools are not withheld`),
    ...when(
      !before.trustAnnotations && after.trustAnnotations,
      `${key}.trust_annotations trusts the server about its tools' effects`,
    ),
    ...compareSandbox(`${key}.sandbox`, before.sandbox, after.sandbox),
    ...Object.entries(before.tools).flatMap(([tool, old]) =>
      compareTool(`${key}.tools.${tool}`, old, getOwn(after.tools, tool)),
    ),
  ];
}

type Api = Config["apis"][string];

function compareApi(key: string, before: Api | undefined, after: Api): readonly string[] {
  if (!after.enabled) return [];
  if (before === undefined || !before.enabled) return [`${key} adds its operations`];
  return [
    ...when(before.server !== after.server, `${key}.server is another address`),
    ...listAdded(`${key}.other_servers`, before.otherServers, after.otherServers),
    ...when(before.digest !== after.digest, `${key}.digest is that of other operations`),
    ...Object.entries(before.operations).flatMap(([operation, old]) => {
      const next = getOwn(after.operations, operation);
      const place = `${key}.operations.${operation}`;
      return [
        ...when(!old.enabled && next?.enabled !== false, `${place} is offered`),
        ...when(old.approval === true && next?.approval !== true, `${place}.approval no longer asks`),
        ...when(old.effect !== undefined && old.effect !== next?.effect, `${place}.effect is no longer ${old.effect}`),
        ...listRemoved(`${place}.tags`, old.tags, next?.tags ?? []),
      ];
    }),
  ];
}

type ToolOverride = Server["tools"][string];

function compareTool(key: string, before: ToolOverride, after: ToolOverride | undefined): readonly string[] {
  return [
    ...when(!before.enabled && after?.enabled !== false, `${key} is offered`),
    ...when(before.approval === true && after?.approval !== true, `${key}.approval no longer asks`),
    ...when(
      before.effect !== undefined && before.effect !== after?.effect,
      `${key}.effect is no longer ${before.effect}`,
    ),
    ...listRemoved(`${key}.tags`, before.tags, after?.tags ?? []),
    ...Object.entries(before.arguments)
      .filter(([argument, form]) => getOwn(after?.arguments ?? {}, argument) !== form)
      .map(([argument, form]) => `${key}.arguments.${argument} no longer has the form ${form}`),
  ];
}

/** A new tag of a tool allows it wherever an actor or `policy.allowed` lists that tag. */
function compareGrantingTags(before: Config, after: Config): readonly string[] {
  const { policy, actors, servers } = after;
  const granting = new Set([...(policy.allowed ?? []), ...Object.values(actors).flatMap(({ tools }) => tools)]);
  return Object.entries(servers).flatMap(([name, { tools }]) => {
    const old = getOwn(before.servers, name);
    if (old === undefined) return [];
    return Object.entries(tools).flatMap(([tool, { tags }]) => {
      const added = tags.filter((tag) => granting.has(`tag:${tag}`));
      return listAdded(`servers.${name}.tools.${tool}.tags`, getOwn(old.tools, tool)?.tags ?? [], added);
    });
  });
}

const when = (isLooser: boolean, text: string): readonly string[] => (isLooser ? [text] : []);
const listAdded = (key: string, before: readonly string[], after: readonly string[]): readonly string[] =>
  findMissing(before, after).map((each) => `${key} also lists ${quote(each)}`);
const listRemoved = (key: string, before: readonly string[], after: readonly string[]): readonly string[] =>
  findMissing(after, before).map((each) => `${key} no longer lists ${quote(each)}`);

const findMissing = (reference: readonly string[], list: readonly string[]): readonly string[] =>
  list.filter((each) => !reference.includes(each));
const quote = (text: string): string => JSON.stringify(text);

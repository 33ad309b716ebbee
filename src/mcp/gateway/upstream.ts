import type { Quartermaster } from "../../app/quartermaster.ts";
import type { Caller } from "../../core/caller.ts";
import type { JsonObject } from "../../core/json.ts";
import { matchesGlob } from "../../core/name-patterns.ts";
import { actionName } from "../../core/names.ts";
import { pickPinnedFields } from "../manifests/offer.ts";
import type { McpServers } from "../provider/mcp-servers.ts";
import { MCP_CATEGORY, toMethodEntry, toToolEntry } from "../provider/tool-actions.ts";
import type { PassThroughTool, Upstream } from "./gateway.ts";

type Offered = { readonly server: string };
type OfferedPrompt = ReturnType<Upstream["prompts"]>[number];
type OfferedResources = ReturnType<Upstream["resources"]>;
type OfferedTemplates = ReturnType<Upstream["templates"]>;

/** The servers of a workspace for the gateway. The quartermaster decides what a caller sees of them. */
export function createServerUpstream(
  servers: Pick<McpServers, "list" | "manifests" | "hub">,
  quartermaster: Pick<Quartermaster, "names" | "onChange">,
): Upstream {
  /** Lists what each server offers, where the caller may use the method that reaches it. */
  function listOffered(caller: Caller, method: string, list: "resources" | "resourceTemplates" | "prompts") {
    const visible = new Set<string>(quartermaster.names(caller));
    return servers.list().flatMap(({ spec: { name: server } }) => {
      if (!visible.has(actionName(MCP_CATEGORY, toMethodEntry(server, method)))) return [];
      return (servers.manifests.offer(server)?.[list] ?? []).map((item: JsonObject) => ({ server, item }));
    });
  }

  return {
    tools(caller, patterns) {
      const visible = new Set<string>(quartermaster.names(caller));
      const passed = servers.list().filter(({ spec }) => patterns.some((pattern) => matchesGlob(pattern, spec.name)));
      return passed.flatMap(({ spec: { name: server } }) =>
        servers.manifests.tools(server).flatMap(({ definition }) => {
          const { name, skill } = definition;
          if (skill !== undefined) return [];
          const action = actionName(MCP_CATEGORY, toToolEntry(server, name));
          return visible.has(action) ? [{ server, action, name, definition: pickPinnedFields(definition) }] : [];
        }),
      );
    },
    resources: (caller) =>
      listOffered(caller, "resources/read", "resources").map(({ server, item: resource }) => ({ server, resource })),
    templates: (caller) =>
      listOffered(caller, "resources/read", "resourceTemplates").map(({ server, item }) => ({
        server,
        template: item,
      })),
    prompts: (caller) =>
      listOffered(caller, "prompts/get", "prompts").map(({ server, item: prompt }) => ({ server, prompt })),
    onChange: (listener) =>
      quartermaster.onChange(() => {
        for (const list of ["tools", "resources", "prompts"] as const) listener(list);
      }),
    onResourceUpdated: servers.hub.onResourceUpdated,
  };
}

/** Names the tools. The first server by name keeps a name that several use; the others get `<server>_<name>`. */
export const selectTools = (tools: readonly PassThroughTool[], reserved: ReadonlySet<string>) =>
  assignNames(tools, reserved, ({ name }) => name);

export const selectPrompts = (prompts: readonly OfferedPrompt[]) =>
  assignNames(prompts, new Set(), ({ prompt }) => String(prompt.name));

function assignNames<T extends Offered>(
  items: readonly T[],
  reserved: ReadonlySet<string>,
  getName: (item: T) => string,
) {
  const byName: Map<string, T> = new Map();
  const assign = (name: string, item: T): boolean => {
    if (reserved.has(name) || byName.has(name)) return false;
    byName.set(name, item);
    return true;
  };
  const renamed = [...items].sort(compareServers).filter((item) => !assign(getName(item), item));
  // A name that is still taken belongs to an item that its server offers twice.
  for (const item of renamed) assign(`${item.server}_${getName(item)}`, item);
  return byName;
}

export function compareServers(a: Offered, b: Offered): number {
  return a.server === b.server ? 0 : a.server < b.server ? -1 : 1;
}

/** The definitions under the names they are listed by, sorted by name. */
export function listDefinitions<T>(byName: ReadonlyMap<string, T>, getDefinition: (item: T) => JsonObject) {
  return [...byName]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, item]) => {
      const definition = getDefinition(item);
      return definition.name === name ? definition : { ...definition, name };
    });
}

/** The server that lists the URI, has a template for it, or alone uses its scheme: tools return unlisted links. */
export function findResourceServer(uri: string, resources: OfferedResources, templates: OfferedTemplates) {
  const exact =
    firstServer(resources.filter(({ resource }) => resource.uri === uri)) ??
    firstServer(templates.filter(({ template }) => isTemplateMatch(template, uri)));
  if (exact !== undefined) return exact;
  const scheme = readScheme(uri);
  const sameScheme = [
    ...resources.filter(({ resource }) => readScheme(String(resource.uri)) === scheme),
    ...templates.filter(({ template }) => readScheme(String(template.uriTemplate)) === scheme),
  ];
  const servers = new Set(sameScheme.map(({ server }) => server));
  return scheme !== "" && servers.size === 1 ? [...servers][0] : undefined;
}

/** The server that has exactly this template. */
export function findTemplateServer(uriTemplate: string, templates: OfferedTemplates): string | undefined {
  return firstServer(templates.filter(({ template }) => template.uriTemplate === uriTemplate));
}

/** A loose match, which the server checks again. It is a glob and not a pattern, so that no template can make it slow. */
const isTemplateMatch = ({ uriTemplate }: JsonObject, uri: string): boolean =>
  typeof uriTemplate === "string" && matchesGlob(uriTemplate.replace(/\{[^{}]*\}/g, "*"), uri);

const readScheme = (uri: string): string => /^[a-z][a-z0-9+.-]*:/i.exec(uri)?.[0].toLowerCase() ?? "";
const firstServer = (offered: readonly Offered[]): string | undefined => offered.map(({ server }) => server).sort()[0];

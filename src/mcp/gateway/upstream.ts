import type { Quartermaster } from "../../app/quartermaster.ts";
import type { Caller } from "../../core/caller.ts";
import type { JsonObject } from "../../core/json.ts";
import { matchesGlob } from "../../core/name-patterns.ts";
import { actionName } from "../../core/names.ts";
import { pickPinnedFields } from "../manifests/offer.ts";
import type { McpServers } from "../provider/mcp-servers.ts";
import { MCP_CATEGORY, toMethodEntry, toToolEntry } from "../provider/tool-actions.ts";
import type { PassThroughTool, Upstream } from "./gateway.ts";

type OfferedPrompt = ReturnType<Upstream["prompts"]>[number];

/**
 * The tools of servers by their own names. Where two servers use the same one, the first server by name keeps it, and
 * the others' carry their server's name in front; a name of our own is never given away.
 */
export function selectTools(
  passed: readonly PassThroughTool[],
  ours: ReadonlySet<string>,
): ReadonlyMap<string, PassThroughTool> {
  return assignNames(passed, ours, ({ name }) => name);
}

export function selectPrompts(prompts: readonly OfferedPrompt[]): ReadonlyMap<string, OfferedPrompt> {
  return assignNames(prompts, new Set(), ({ prompt }) => String(prompt.name));
}

/** Sorted by the names they are shown by. */
export function listDefinitions<T>(
  shown: ReadonlyMap<string, T>,
  getDefinition: (thing: T) => JsonObject,
): readonly JsonObject[] {
  return [...shown]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, thing]) => {
      const definition = getDefinition(thing);
      return definition.name === name ? definition : { ...definition, name };
    });
}

function assignNames<T extends { readonly server: string }>(
  things: readonly T[],
  taken: ReadonlySet<string>,
  getName: (thing: T) => string,
): ReadonlyMap<string, T> {
  const byName = new Map<string, T>();
  const isFree = (name: string) => !taken.has(name) && !byName.has(name);
  const inOrder = [...things].sort((a, b) => (a.server === b.server ? 0 : a.server < b.server ? -1 : 1));
  const later = inOrder.filter((thing) => {
    const name = getName(thing);
    if (!isFree(name)) return true;
    byName.set(name, thing);
    return false;
  });
  for (const thing of later) {
    const name = `${thing.server}_${getName(thing)}`;
    // What a server itself offers twice is the same thing twice.
    if (isFree(name)) byName.set(name, thing);
  }
  return byName;
}

type OfferedResources = ReturnType<Upstream["resources"]>;
type OfferedTemplates = ReturnType<Upstream["templates"]>;

/**
 * The server that a URI is to be read from: the one that lists it, or has a template for it, or is the only one with
 * anything of that scheme; tools hand out links to what no list holds. The first server by name, where several would do.
 */
export function findResourceServer(
  uri: string,
  resources: OfferedResources,
  templates: OfferedTemplates,
): string | undefined {
  const listing = firstServer(resources.filter(({ resource }) => resource.uri === uri));
  if (listing !== undefined) return listing;
  const fitting = firstServer(templates.filter(({ template }) => isTemplateMatch(template, uri)));
  if (fitting !== undefined) return fitting;
  const scheme = readScheme(uri);
  const known = [
    ...resources.filter(({ resource }) => readScheme(String(resource.uri)) === scheme),
    ...templates.filter(({ template }) => readScheme(String(template.uriTemplate)) === scheme),
  ];
  const servers = new Set(known.map(({ server }) => server));
  return scheme !== "" && servers.size === 1 ? [...servers][0] : undefined;
}

/** The server with exactly this template, for completions. */
export function findTemplateServer(uriTemplate: string, templates: OfferedTemplates): string | undefined {
  return firstServer(templates.filter(({ template }) => template.uriTemplate === uriTemplate));
}

/** Loosely: the server says what is really there. No template can make this slow, as a pattern built from it could. */
function isTemplateMatch({ uriTemplate }: JsonObject, uri: string): boolean {
  return typeof uriTemplate === "string" && matchesGlob(uriTemplate.replace(/\{[^{}]*\}/g, "*"), uri);
}

function readScheme(uri: string): string {
  return /^[a-z][a-z0-9+.-]*:/i.exec(uri)?.[0].toLowerCase() ?? "";
}

function firstServer(offered: readonly { readonly server: string }[]): string | undefined {
  return offered.map(({ server }) => server).sort()[0];
}

/** The servers of a workspace as the gateway passes them on. Whether a caller sees something, the quartermaster says. */
export function createServerUpstream(
  servers: Pick<McpServers, "list" | "manifests" | "hub">,
  quartermaster: Pick<Quartermaster, "names" | "onChange">,
): Upstream {
  /** Of every server the part that a caller may use, where it may use the action that reaches it. */
  function listOffered(caller: Caller, via: string, list: "resources" | "resourceTemplates" | "prompts") {
    const seen = new Set<string>(quartermaster.names(caller));
    return servers.list().flatMap(({ spec: { name: server } }) => {
      if (!seen.has(actionName(MCP_CATEGORY, toMethodEntry(server, via)))) return [];
      return (servers.manifests.offer(server)?.[list] ?? []).map((item: JsonObject) => ({ server, item }));
    });
  }

  return {
    tools(caller, wanted) {
      const seen = new Set<string>(quartermaster.names(caller));
      return servers
        .list()
        .filter(({ spec: { name } }) => wanted.some((pattern) => matchesGlob(pattern, name)))
        .flatMap(({ spec: { name: server } }) =>
          servers.manifests.tools(server).flatMap(({ definition }) => {
            const action = actionName(MCP_CATEGORY, toToolEntry(server, definition.name));
            return seen.has(action)
              ? [{ server, action, name: definition.name, definition: pickPinnedFields(definition) }]
              : [];
          }),
        );
    },
    resources: (caller) =>
      listOffered(caller, "resources/read", "resources").map(({ server, item }) => ({ server, resource: item })),
    templates: (caller) =>
      listOffered(caller, "resources/read", "resourceTemplates").map(({ server, item }) => ({
        server,
        template: item,
      })),
    prompts: (caller) =>
      listOffered(caller, "prompts/get", "prompts").map(({ server, item }) => ({ server, prompt: item })),
    onChange(listener) {
      return quartermaster.onChange(() => {
        for (const what of ["tools", "resources", "prompts"] as const) listener(what);
      });
    },
    onResourceUpdated: servers.hub.onResourceUpdated,
  };
}

import type { Caller } from "../../core/caller.ts";
import { matchesGlob } from "../../core/glob.ts";
import type { JsonObject } from "../../core/json.ts";
import { actionName } from "../../core/names.ts";
import type { Quartermaster } from "../../quartermaster.ts";
import { pinnedPart } from "../manifest/definition-hash.ts";
import { methodEntry, toolEntry } from "../provider/entry-names.ts";
import { MCP } from "../provider/tool-actions.ts";
import type { Servers } from "../servers/servers.ts";
import type { Upstream } from "./gateway.ts";

/** The servers of a workspace as the gateway passes them on. Whether a caller sees something, the quartermaster says. */
export function serverUpstream(
  servers: Pick<Servers, "list" | "book" | "hub">,
  quartermaster: Pick<Quartermaster, "names" | "onChange">,
): Upstream {
  /** Of every server the part that a caller may use, where it may use the action that reaches it. */
  function offered(caller: Caller, via: string, list: "resources" | "resourceTemplates" | "prompts") {
    const seen = new Set<string>(quartermaster.names(caller));
    return servers.list().flatMap(({ spec: { name: server } }) => {
      if (!seen.has(actionName(MCP, methodEntry(server, via)))) return [];
      return (servers.book.offer(server)?.[list] ?? []).map((item: JsonObject) => ({ server, item }));
    });
  }

  return {
    tools(caller, wanted) {
      const seen = new Set<string>(quartermaster.names(caller));
      return servers
        .list()
        .filter(({ spec: { name } }) => wanted.some((pattern) => matchesGlob(pattern, name)))
        .flatMap(({ spec: { name: server } }) =>
          servers.book.tools(server).flatMap(({ definition }) => {
            const action = actionName(MCP, toolEntry(server, definition.name));
            return seen.has(action)
              ? [{ server, action, name: definition.name, definition: pinnedPart(definition) }]
              : [];
          }),
        );
    },
    resources: (caller) =>
      offered(caller, "resources/read", "resources").map(({ server, item }) => ({ server, resource: item })),
    templates: (caller) =>
      offered(caller, "resources/read", "resourceTemplates").map(({ server, item }) => ({ server, template: item })),
    prompts: (caller) =>
      offered(caller, "prompts/get", "prompts").map(({ server, item }) => ({ server, prompt: item })),
    onChange(listener) {
      return quartermaster.onChange(() => {
        for (const what of ["tools", "resources", "prompts"] as const) listener(what);
      });
    },
    onResourceUpdated: servers.hub.onResourceUpdated,
  };
}

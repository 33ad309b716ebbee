import type { Action } from "../../core/action.ts";
import type { ServerBook } from "../manifest/book.ts";
import type { ServerSpec } from "../server-spec.ts";
import { connectAction, serverActions } from "./server-actions.ts";
import { type Reach, toolAction } from "./tool-actions.ts";

/** What is told of a server to whoever may see it: its connection, and whether its tools are known. */
export interface ServerFacts {
  readonly description: string | undefined;
  readonly state: string;
  readonly known: boolean;
}

/** The actions of every configured server, made when something about it has changed. */
export interface ServerCatalog {
  names(): readonly string[];
  actions(server: string): readonly Action[];
  facts(server: string): ServerFacts;
}

export function createServerCatalog(
  reach: Reach & { readonly book: Pick<ServerBook, "tools" | "tool" | "refresh" | "offer"> },
  specs: () => readonly ServerSpec[],
): ServerCatalog {
  const made = new Map<string, { readonly from: readonly unknown[]; readonly actions: readonly Action[] }>();

  function actionsOf(spec: ServerSpec): readonly Action[] {
    const offer = reach.book.offer(spec.name);
    const tools = reach.book.tools(spec.name);
    const from = [spec, offer, ...tools];
    const kept = made.get(spec.name);
    if (kept !== undefined && kept.from.length === from.length && from.every((part, at) => part === kept.from[at]))
      return kept.actions;
    const actions =
      offer === undefined
        ? [connectAction(reach, spec)]
        : [...tools.flatMap((tool) => toolAction(reach, spec, tool) ?? []), ...serverActions(reach, spec, offer)];
    made.set(spec.name, { from, actions });
    return actions;
  }

  const find = (server: string) => specs().find(({ name }) => name === server);
  return {
    names: () => specs().map(({ name }) => name),
    actions(server) {
      const spec = find(server);
      return spec === undefined ? [] : actionsOf(spec);
    },
    facts(server) {
      const { state } = reach.hub.status(server);
      const known = reach.book.offer(server) !== undefined;
      const resting = known ? "known" : "configured";
      return { description: find(server)?.description, state: state === "idle" ? resting : state, known };
    },
  };
}

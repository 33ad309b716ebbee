import { QmError } from "../../core/errors.ts";
import type { JsonObject } from "../../core/json.ts";
import { actionName } from "../../core/names.ts";
import type { Hub } from "../hub/hub.ts";
import type { ServerBook } from "../manifest/book.ts";
import type { Dropped, Installed, ServerDesk } from "../provider/desk.ts";
import { toolEntry } from "../provider/entry-names.ts";
import { MCP } from "../provider/tool-actions.ts";
import type { BundleFile, InstallPlan } from "../registry/install-plan.ts";
import type { PlanRequest } from "../registry/planner.ts";
import type { Registry } from "../registry/registry.ts";
import type { SecretStore } from "../secret-store.ts";
import { type ServerSpec, secretsIn } from "../server-spec.ts";

/** Where servers are written down, so that they are there at the next start. */
export interface ServerWriter {
  /** Throws `conflict` when the name is taken. */
  add(name: string, entry: JsonObject): Promise<void>;
  /** Throws `not_found`. */
  remove(name: string): Promise<void>;
  /** What such an entry means. */
  specOf(name: string, entry: JsonObject): ServerSpec;
}

export type DeskEvent =
  | {
      readonly type: "server.added";
      readonly data: {
        readonly server: string;
        readonly launch: string;
        readonly source?: string;
        readonly by: string;
      };
    }
  | { readonly type: "server.removed"; readonly data: { readonly server: string; readonly by: string } };

export interface DeskOptions {
  readonly hub: Pick<Hub, "probe" | "logout">;
  readonly book: ServerBook;
  readonly registry: Registry;
  /** Makes plans: what exactly would be run. */
  readonly plans: (request: PlanRequest, signal?: AbortSignal) => Promise<InstallPlan>;
  /** Fetches and unpacks what a plan needs before its server can start. */
  readonly unpack: (file: BundleFile, signal?: AbortSignal) => Promise<void>;
  readonly writer: ServerWriter;
  readonly secrets: SecretStore;
  readonly specs: () => readonly ServerSpec[];
  readonly configure: (specs: readonly ServerSpec[]) => Promise<void>;
  readonly note: (event: DeskEvent) => void;
}

export function createDesk(options: DeskOptions): ServerDesk {
  const { hub, book, registry, plans, unpack, writer, secrets, specs, configure, note } = options;

  async function plan(request: PlanRequest, signal?: AbortSignal): Promise<InstallPlan> {
    const made = await plans(request, signal);
    if (!specs().some(({ name }) => name === made.name)) return made;
    throw new QmError("conflict", `there is a server ${made.name} already`, { hint: "Choose another name for it." });
  }

  return {
    specs,
    registry,
    plan,
    async install(plan: InstallPlan, by: string, signal?: AbortSignal): Promise<Installed> {
      const entry = entryOf(plan);
      const spec = writer.specOf(plan.name, entry);
      if (plan.files !== undefined) await unpack(plan.files, signal);
      const offer = await hub.probe(spec, signal);
      signal?.throwIfAborted();
      await writer.add(plan.name, entry);
      // What was seen when a person agreed is what is accepted.
      await book.learned(spec, offer);
      note({ type: "server.added", data: { server: plan.name, launch: plan.command, source: plan.source, by } });
      await configure([...specs().filter(({ name }) => name !== plan.name), spec]);
      const { name, command, version } = plan;
      return {
        server: name,
        command,
        ...(version === undefined ? {} : { version }),
        actions: book.tools(name).map(({ definition }) => actionName(MCP, toolEntry(name, definition.name))),
        withheld: book.withheld(name).length,
      };
    },
    async drop(server: string, by: string, { clearSecrets }): Promise<Dropped> {
      const spec = specs().find(({ name }) => name === server);
      if (spec === undefined) {
        throw new QmError("not_found", `there is no MCP server ${JSON.stringify(server)}`, {
          hint: "`qm servers list` shows the servers there are.",
        });
      }
      await writer.remove(server);
      const others = specs().filter(({ name }) => name !== server);
      await hub.logout(server);
      await configure(others);
      await book.forget(server);
      note({ type: "server.removed", data: { server, by } });
      const shared = new Set(others.flatMap(({ launch }) => secretsIn(launch)));
      const cleared: string[] = [];
      if (clearSecrets) {
        for (const name of secretsIn(spec.launch))
          if (!shared.has(name) && (await secrets.delete(name))) cleared.push(name);
      }
      return { server, secrets: cleared };
    },
  };
}

/** A plan in the words of the configuration file. */
function entryOf({ launch, version, source, description }: InstallPlan): JsonObject {
  const how: JsonObject =
    launch.kind === "stdio"
      ? {
          command: launch.command,
          ...(launch.args.length === 0 ? {} : { args: [...launch.args] }),
          ...(Object.keys(launch.env).length === 0 ? {} : { env: { ...launch.env } }),
          ...(launch.cwd === undefined ? {} : { cwd: launch.cwd }),
        }
      : { url: launch.url, ...(Object.keys(launch.headers).length === 0 ? {} : { headers: { ...launch.headers } }) };
  return {
    ...how,
    ...(description === undefined ? {} : { description }),
    ...(version === undefined ? {} : { version }),
    source,
  };
}

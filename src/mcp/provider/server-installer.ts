import { getErrorMessage, QmError } from "../../core/errors.ts";
import type { JsonObject } from "../../core/json.ts";
import { actionName } from "../../core/names.ts";
import type { Hub } from "../hub/hub.ts";
import { createOAuthStore } from "../hub/oauth-store.ts";
import type { ProblemStore, ServerProblem } from "../hub/server-problems.ts";
import type { BundleFile, InstallPlan } from "../install/install-plan.ts";
import type { InstallPlanRequest } from "../install/install-planner.ts";
import type { ServerRegistry } from "../install/server-registry.ts";
import type { ManifestService } from "../manifests/manifest-service.ts";
import type { SecretStore } from "../secret-store.ts";
import { findSecretNames, fingerprintServer, type ServerSpec } from "../server-spec.ts";
import { MCP_CATEGORY, toToolEntry } from "./tool-actions.ts";

export interface InstalledServer {
  readonly server: string;
  readonly command: string;
  readonly version?: string;
  /** The actions it brought. */
  readonly actions: readonly string[];
  /** How many of its tools a person must look at before they can be used. */
  readonly withheld: number;
  /** It answers, and wants somebody to log in before it says what it offers. */
  readonly needsLogin?: true;
  readonly hint?: string;
}

interface DroppedServer {
  readonly server: string;
  readonly secrets: readonly string[];
}

/** Where servers are found, added and taken away. Who may ask is decided before. */
export interface ServerInstaller {
  specs(): readonly ServerSpec[];
  readonly registry: Pick<ServerRegistry, "search">;
  /** What installing would mean, exactly. Changes nothing. */
  plan(request: InstallPlanRequest, signal?: AbortSignal): Promise<InstallPlan>;
  /**
   * Starts it once to see that it works, and only then writes it down; one that wants a login first is written down, too.
   * Throws `server_failed`; then nothing is written.
   */
  install(plan: InstallPlan, by: string, signal?: AbortSignal): Promise<InstalledServer>;
  /** A server that is disabled can be taken away like any other. Throws `not_found`. */
  drop(server: string, by: string, options: { readonly clearSecrets: boolean }): Promise<DroppedServer>;
}

/** In the same words whether it is hidden or not there. */
export function serverNotFoundError(server: string): QmError {
  return new QmError("not_found", `there is no MCP server ${JSON.stringify(server)}`, {
    hint: "mcp__list_servers lists the servers there are.",
  });
}

/** Where servers are written down, so that they are there at the next start. */
export interface ServerConfigWriter {
  /**
   * Throws `conflict` when the name is taken. `beforeWriting` is awaited when it is free and stays so; when that throws,
   * nothing is written.
   */
  add(name: string, entry: JsonObject, beforeWriting: () => Promise<void>): Promise<void>;
  /** Takes a server away that is written down, whether it is in use or not. Throws `not_found`. */
  remove(name: string): Promise<RemovedServer>;
  /** What such an entry means. */
  parseEntry(name: string, entry: JsonObject): ServerSpec;
}

interface RemovedServer {
  readonly spec: ServerSpec;
  /** The stored secrets that the rest of what is written down refers to. */
  readonly secretsInUse: readonly string[];
}

export type InstallerEvent =
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

export interface ServerInstallerOptions {
  readonly hub: Pick<Hub, "probe">;
  readonly book: ManifestService;
  readonly registry: ServerRegistry;
  /** Makes plans: what exactly would be run. */
  readonly plans: (request: InstallPlanRequest, signal?: AbortSignal) => Promise<InstallPlan>;
  /** Fetches and unpacks what a plan needs before its server can start. */
  readonly unpack: (file: BundleFile, signal?: AbortSignal) => Promise<void>;
  readonly writer: ServerConfigWriter;
  readonly secrets: SecretStore;
  readonly problems: ProblemStore;
  readonly specs: () => readonly ServerSpec[];
  readonly configure: (specs: readonly ServerSpec[]) => Promise<void>;
  readonly note: (event: InstallerEvent) => void;
}

export function createServerInstaller(options: ServerInstallerOptions): ServerInstaller {
  const { hub, book, registry, plans, unpack, writer, secrets, problems, specs, configure, note } = options;

  return {
    specs,
    registry,
    // Whether the name is taken is told to whom it is installed for: a plan may be looked at by anybody.
    plan: plans,
    async install(plan: InstallPlan, by: string, signal?: AbortSignal): Promise<InstalledServer> {
      if (specs().some(({ name }) => name === plan.name))
        throw new QmError("conflict", `there is a server ${plan.name} already`, {
          hint: "Choose another name for it, as with `qm servers add --name`.",
        });
      const entry = toConfigEntry(plan);
      const spec = writer.parseEntry(plan.name, entry);
      if (plan.files !== undefined) await unpack(plan.files, signal);
      const offer = await hub.probe(spec, signal).catch(ignoreLoginRequired);
      signal?.throwIfAborted();
      let isLearned = false;
      try {
        await writer.add(plan.name, entry, async () => {
          // What was seen when a person agreed is what is accepted. Whoever watches what is written down may start it at
          // once, and must find that.
          if (offer === undefined) return;
          isLearned = true;
          await book.learn(spec, offer);
        });
      } catch (thrown) {
        if (isLearned) await book.forget(plan.name);
        throw thrown;
      }
      note({ type: "server.added", data: { server: plan.name, launch: plan.command, source: plan.source, by } });
      await configure([...specs().filter(({ name }) => name !== plan.name), spec]);
      if (offer === undefined) await problems.set(plan.name, toLoginProblem(spec));
      const { name, command, version } = plan;
      const entries = offer === undefined ? ["connect"] : book.tools(name).map(({ definition }) => definition.name);
      return {
        server: name,
        command,
        ...(version === undefined ? {} : { version }),
        actions: entries.map((each) => actionName(MCP_CATEGORY, toToolEntry(name, each))),
        withheld: book.withheld(name).length,
        ...(offer === undefined ? { needsLogin: true, hint: formatLoginHint(name) } : {}),
      };
    },
    async drop(server: string, by: string, { clearSecrets }): Promise<DroppedServer> {
      const { spec, secretsInUse } = await writer.remove(server).catch((thrown: unknown) => {
        throw thrown instanceof QmError && thrown.code === "not_found" ? serverNotFoundError(server) : thrown;
      });
      const { launch } = spec;
      const unused = clearSecrets ? findSecretNames(launch).filter((name) => !secretsInUse.includes(name)) : [];
      const cleared: string[] = [];
      const faults: unknown[] = [];
      const steps = [
        () => configure(specs().filter(({ name }) => name !== server)),
        async () => (launch.kind === "http" ? createOAuthStore(secrets).drop(server) : undefined),
        () => book.forget(server),
        () => problems.clear(server),
        ...unused.map((name) => async () => {
          if (await secrets.delete(name)) cleared.push(name);
        }),
      ];
      // It is written down no more: whatever goes wrong now must not leave half of it here.
      for (const step of steps) await step().catch((thrown: unknown) => faults.push(thrown));
      note({ type: "server.removed", data: { server, by } });
      if (faults.length > 0) throw partialRemovalError(server, faults[0]);
      return { server, secrets: cleared };
    },
  };
}

function ignoreLoginRequired(thrown: unknown): undefined {
  if (!(thrown instanceof QmError && thrown.code === "needs_login")) throw thrown;
  return undefined;
}

function toLoginProblem(spec: ServerSpec): ServerProblem {
  const message = `server ${spec.name} wants somebody to log in`;
  return { fingerprint: fingerprintServer(spec), state: "needs_login", message };
}

function formatLoginHint(server: string): string {
  return `Its tools are known after a login: a person does that with \`qm servers login ${server}\`.`;
}

function partialRemovalError(server: string, fault: unknown): QmError {
  const { code, hint } = fault instanceof QmError ? fault : { code: "action_failed" as const, hint: undefined };
  return new QmError(code, `${server} is removed, but not everything of it: ${getErrorMessage(fault)}`, {
    ...(hint === undefined ? {} : { hint }),
    cause: fault,
  });
}

/** A plan in the words of the configuration file. */
function toConfigEntry({ launch, version, source, description }: InstallPlan): JsonObject {
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

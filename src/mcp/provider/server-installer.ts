import { getErrorMessage, QmError } from "../../core/errors.ts";
import type { UnstampedEvent } from "../../core/events.ts";
import { type JsonObject, omitUndefined } from "../../core/json.ts";
import { actionName } from "../../core/names.ts";
import type { Hub } from "../hub/hub.ts";
import { createOAuthStore } from "../hub/oauth-store.ts";
import type { ProblemStore } from "../hub/server-problems.ts";
import type { BundleFile, InstallPlan } from "../install/install-plan.ts";
import type { InstallPlanRequest } from "../install/install-planner.ts";
import type { ServerRegistry } from "../install/server-registry.ts";
import type { ManifestService } from "../manifests/manifest-service.ts";
import type { SecretStore } from "../secret-store.ts";
import { findSecretNames, fingerprintServer, type ServerSpec } from "../server-spec.ts";
import { MCP_CATEGORY, toDefinitionEntry, toMethodEntry } from "./tool-actions.ts";

export interface InstalledServer {
  readonly server: string;
  readonly command: string;
  readonly version?: string;
  readonly actions: readonly string[];
  /** How many of its tools a person must review before they can be used. */
  readonly withheld: number;
  /** The server lists its tools only after a login. */
  readonly needsLogin?: true;
  readonly hint?: string;
}

/** Finds, installs and removes servers. The caller's permission is checked before. */
export interface ServerInstaller {
  specs(): readonly ServerSpec[];
  readonly registry: Pick<ServerRegistry, "search">;
  /** Describes exactly what an installation would do. Changes nothing. */
  plan(request: InstallPlanRequest, signal?: AbortSignal): Promise<InstallPlan>;
  /** Throws `conflict` if a server has this name, also one that the caller may not see. */
  requireFreeName(name: string): void;
  /** Starts the server once, and saves it if it works or needs a login. Throws `server_failed`, `conflict`. */
  install(plan: InstallPlan, by: string, signal?: AbortSignal): Promise<InstalledServer>;
  /** Removes a server, also a disabled one. Throws `not_found`. */
  drop(server: string, by: string, options: { clearSecrets: boolean }): Promise<{ server: string; secrets: string[] }>;
}

/** The same message whether the server is hidden from the caller or does not exist. */
export function serverNotFoundError(server: string): QmError {
  const hint = "Use the name of an installed server. List them with {mcp__list_servers}.";
  return new QmError("not_found", `there is no MCP server ${JSON.stringify(server)}`, { hint });
}

export interface ServerConfigWriter {
  /** Throws `conflict` if the name is taken. If `beforeWriting`, awaited while the name is reserved, throws, writes nothing. */
  add(name: string, entry: JsonObject, beforeWriting: () => Promise<void>): Promise<void>;
  /** Throws `not_found`. `secretsInUse` are the secrets that the rest of the configuration refers to. */
  remove(name: string): Promise<{ readonly spec: ServerSpec; readonly secretsInUse: readonly string[] }>;
  parseEntry(name: string, entry: JsonObject): ServerSpec;
}

export type InstallerEvent = UnstampedEvent<"server.added" | "server.removed">;

export interface ServerInstallerOptions {
  readonly hub: Pick<Hub, "probe">;
  readonly manifests: ManifestService;
  readonly registry: Pick<ServerRegistry, "search">;
  readonly plans: (request: InstallPlanRequest, signal?: AbortSignal) => Promise<InstallPlan>;
  readonly unpack: (file: BundleFile, signal?: AbortSignal) => Promise<void>;
  readonly writer: ServerConfigWriter;
  readonly secrets: SecretStore;
  readonly problems: ProblemStore;
  readonly specs: () => readonly ServerSpec[];
  readonly configure: (specs: readonly ServerSpec[]) => Promise<void>;
  readonly note: (event: InstallerEvent) => void;
}

export function createServerInstaller(options: ServerInstallerOptions): ServerInstaller {
  const { hub, manifests, registry, plans, unpack, writer, secrets, problems, specs, configure, note } = options;

  const requireFreeName = (name: string): void => {
    if (!specs().some((spec) => spec.name === name)) return;
    throw new QmError("conflict", `there is a server ${name} already`, { hint: "Choose another name for it." });
  };

  return {
    specs,
    registry,
    requireFreeName,
    // A plan does not say whether the name is taken: it may be shown to callers who may not see the server.
    plan: plans,
    async install(plan, by, signal) {
      const { name, command, version, source } = plan;
      requireFreeName(name);
      const entry = toConfigEntry(plan);
      const spec = writer.parseEntry(name, entry);
      if (plan.files !== undefined) await unpack(plan.files, signal);
      const offer = await hub.probe(spec, signal).catch((thrown: unknown) => {
        if (!(thrown instanceof QmError && thrown.code === "needs_login")) throw toUnsavedError(thrown);
      });
      signal?.throwIfAborted();
      let isLearned = false;
      try {
        await writer.add(name, entry, async () => {
          // The offer seen now is the accepted one. Store it first: another process may watch the configuration and
          // start the server at once.
          if (!offer) return;
          isLearned = true;
          await manifests.learn(spec, offer);
        });
      } catch (thrown) {
        if (isLearned) await manifests.forget(name);
        throw thrown;
      }
      note({ type: "server.added", data: { server: name, launch: command, source, by } });
      await configure([...specs().filter((other) => other.name !== name), spec]);
      const message = `server ${name} needs a login`;
      if (!offer) await problems.set(name, { fingerprint: fingerprintServer(spec), state: "needs_login", message });
      const entries = offer
        ? manifests.tools(name).map(({ definition }) => toDefinitionEntry(name, definition))
        : [toMethodEntry(name, "connect")];
      const hint = "Its tools are known after a person has logged in to it.";
      return {
        server: name,
        command,
        ...omitUndefined({ version }),
        actions: entries.map((each) => actionName(MCP_CATEGORY, each)),
        withheld: manifests.withheld(name).length,
        ...(offer ? {} : { needsLogin: true, hint }),
      };
    },
    async drop(server, by, { clearSecrets }) {
      const { spec, secretsInUse } = await writer.remove(server).catch((thrown: unknown) => {
        throw thrown instanceof QmError && thrown.code === "not_found" ? serverNotFoundError(server) : thrown;
      });
      const { launch } = spec;
      const unused = clearSecrets ? findSecretNames(launch).filter((name) => !secretsInUse.includes(name)) : [];
      const cleared: string[] = [];
      const failures: unknown[] = [];
      const steps = [
        () => configure(specs().filter(({ name }) => name !== server)),
        async () => (launch.kind === "http" ? createOAuthStore(secrets).drop(server) : undefined),
        () => manifests.forget(server),
        () => problems.clear(server),
        ...unused.map((name) => async () => {
          if (await secrets.delete(name)) cleared.push(name);
        }),
      ];
      // The configuration is written already, so a failing step must not stop the others.
      for (const step of steps) await step().catch((thrown: unknown) => failures.push(thrown));
      note({ type: "server.removed", data: { server, by } });
      if (failures.length > 0) throw partialRemovalError(server, failures[0]);
      return { server, secrets: cleared };
    },
  };
}

/** A hint to list the servers would not help: this one is not among them. */
function toUnsavedError(thrown: unknown): unknown {
  if (!(thrown instanceof QmError) || thrown.hintTemplate?.includes("{qm servers list}") !== true) return thrown;
  const hint = "It was not saved. Check its command or URL, then add it again.";
  return new QmError(thrown.code, thrown.message, { hint, details: thrown.details, cause: thrown });
}

function partialRemovalError(server: string, cause: unknown): QmError {
  const { code, hintTemplate: hint } =
    cause instanceof QmError ? cause : { code: "action_failed" as const, hintTemplate: undefined };
  const message = `${server} is removed, but not everything of it: ${getErrorMessage(cause)}`;
  return new QmError(code, message, { ...omitUndefined({ hint }), cause });
}

function toConfigEntry({ launch, version, source, description }: InstallPlan): JsonObject {
  const unlessEmpty = <T extends object>(value: T) => (Object.keys(value).length === 0 ? undefined : value);
  const fields =
    launch.kind === "stdio"
      ? { command: launch.command, args: unlessEmpty(launch.args), env: unlessEmpty(launch.env), cwd: launch.cwd }
      : { url: launch.url, headers: unlessEmpty(launch.headers) };
  return omitUndefined({ ...fields, description, version, source }) as JsonObject;
}

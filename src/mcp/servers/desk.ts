import { messageOf, QmError } from "../../core/errors.ts";
import type { JsonObject } from "../../core/json.ts";
import { actionName } from "../../core/names.ts";
import type { Hub } from "../hub/hub.ts";
import { oauthRecords } from "../hub/oauth-records.ts";
import type { ProblemStore, ServerProblem } from "../hub/problem-store.ts";
import type { ServerBook } from "../manifest/book.ts";
import { type Dropped, type Installed, noServer, type ServerDesk } from "../provider/desk.ts";
import { toolEntry } from "../provider/entry-names.ts";
import { MCP } from "../provider/tool-actions.ts";
import type { BundleFile, InstallPlan } from "../registry/install-plan.ts";
import type { PlanRequest } from "../registry/planner.ts";
import type { Registry } from "../registry/registry.ts";
import type { SecretStore } from "../secret-store.ts";
import { fingerprintOf, type ServerSpec, secretsIn } from "../server-spec.ts";

/** Where servers are written down, so that they are there at the next start. */
export interface ServerWriter {
  /**
   * Throws `conflict` when the name is taken. `beforeWriting` is awaited when it is free and stays so; when that throws,
   * nothing is written.
   */
  add(name: string, entry: JsonObject, beforeWriting: () => Promise<void>): Promise<void>;
  /** Takes a server away that is written down, whether it is in use or not. Throws `not_found`. */
  remove(name: string): Promise<RemovedServer>;
  /** What such an entry means. */
  specOf(name: string, entry: JsonObject): ServerSpec;
}

export interface RemovedServer {
  readonly spec: ServerSpec;
  /** The stored secrets that the rest of what is written down refers to. */
  readonly secretsInUse: readonly string[];
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
  readonly hub: Pick<Hub, "probe">;
  readonly book: ServerBook;
  readonly registry: Registry;
  /** Makes plans: what exactly would be run. */
  readonly plans: (request: PlanRequest, signal?: AbortSignal) => Promise<InstallPlan>;
  /** Fetches and unpacks what a plan needs before its server can start. */
  readonly unpack: (file: BundleFile, signal?: AbortSignal) => Promise<void>;
  readonly writer: ServerWriter;
  readonly secrets: SecretStore;
  readonly problems: ProblemStore;
  readonly specs: () => readonly ServerSpec[];
  readonly configure: (specs: readonly ServerSpec[]) => Promise<void>;
  readonly note: (event: DeskEvent) => void;
}

export function createDesk(options: DeskOptions): ServerDesk {
  const { hub, book, registry, plans, unpack, writer, secrets, problems, specs, configure, note } = options;

  return {
    specs,
    registry,
    // Whether the name is taken is told to whom it is installed for: a plan may be looked at by anybody.
    plan: plans,
    async install(plan: InstallPlan, by: string, signal?: AbortSignal): Promise<Installed> {
      if (specs().some(({ name }) => name === plan.name))
        throw new QmError("conflict", `there is a server ${plan.name} already`, {
          hint: "Choose another name for it, as with `qm servers add --name`.",
        });
      const entry = entryOf(plan);
      const spec = writer.specOf(plan.name, entry);
      if (plan.files !== undefined) await unpack(plan.files, signal);
      const offer = await hub.probe(spec, signal).catch(unlessLogin);
      signal?.throwIfAborted();
      let isLearned = false;
      try {
        await writer.add(plan.name, entry, async () => {
          // What was seen when a person agreed is what is accepted. Whoever watches what is written down may start it at
          // once, and must find that.
          if (offer === undefined) return;
          isLearned = true;
          await book.learned(spec, offer);
        });
      } catch (thrown) {
        if (isLearned) await book.forget(plan.name);
        throw thrown;
      }
      note({ type: "server.added", data: { server: plan.name, launch: plan.command, source: plan.source, by } });
      await configure([...specs().filter(({ name }) => name !== plan.name), spec]);
      if (offer === undefined) await problems.set(plan.name, wantsLogin(spec));
      const { name, command, version } = plan;
      const entries = offer === undefined ? ["connect"] : book.tools(name).map(({ definition }) => definition.name);
      return {
        server: name,
        command,
        ...(version === undefined ? {} : { version }),
        actions: entries.map((each) => actionName(MCP, toolEntry(name, each))),
        withheld: book.withheld(name).length,
        ...(offer === undefined ? { needsLogin: true, hint: loginHint(name) } : {}),
      };
    },
    async drop(server: string, by: string, { clearSecrets }): Promise<Dropped> {
      const { spec, secretsInUse } = await writer.remove(server).catch((thrown: unknown) => {
        throw thrown instanceof QmError && thrown.code === "not_found" ? noServer(server) : thrown;
      });
      const { launch } = spec;
      const unused = clearSecrets ? secretsIn(launch).filter((name) => !secretsInUse.includes(name)) : [];
      const cleared: string[] = [];
      const faults: unknown[] = [];
      const steps = [
        () => configure(specs().filter(({ name }) => name !== server)),
        async () => (launch.kind === "http" ? oauthRecords(secrets).drop(server) : undefined),
        () => book.forget(server),
        () => problems.clear(server),
        ...unused.map((name) => async () => {
          if (await secrets.delete(name)) cleared.push(name);
        }),
      ];
      // It is written down no more: whatever goes wrong now must not leave half of it here.
      for (const step of steps) await step().catch((thrown: unknown) => faults.push(thrown));
      note({ type: "server.removed", data: { server, by } });
      if (faults.length > 0) throw notAll(server, faults[0]);
      return { server, secrets: cleared };
    },
  };
}

function unlessLogin(thrown: unknown): undefined {
  if (!(thrown instanceof QmError && thrown.code === "needs_login")) throw thrown;
  return undefined;
}

function wantsLogin(spec: ServerSpec): ServerProblem {
  const message = `server ${spec.name} wants somebody to log in`;
  return { fingerprint: fingerprintOf(spec), state: "needs_login", message };
}

function loginHint(server: string): string {
  return `Its tools are known after a login: a person does that with \`qm servers login ${server}\`.`;
}

function notAll(server: string, fault: unknown): QmError {
  const { code, hint } = fault instanceof QmError ? fault : { code: "action_failed" as const, hint: undefined };
  return new QmError(code, `${server} is removed, but not everything of it: ${messageOf(fault)}`, {
    ...(hint === undefined ? {} : { hint }),
    cause: fault,
  });
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

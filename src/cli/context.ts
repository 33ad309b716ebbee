import { existsSync } from "node:fs";
import { userInfo } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import type { CallerOptions } from "../app/options.ts";
import type { Environment } from "../config/references.ts";
import { toOneLine } from "../core/display-text.ts";
import { QmError } from "../core/errors.ts";
import { cliHintWords } from "../core/hint.ts";
import { omitUndefined } from "../core/json.ts";
import type { Workspace, WorkspacePurpose } from "../workspace/workspace.ts";
import { type ExitCode, exitCodes } from "./exit-codes.ts";
import type { CommandOutput } from "./output.ts";

export type TextStream = { write(text: string): void; readonly isTTY: boolean; readonly columns?: number | undefined };

/** Everything the program uses of its process. */
export interface Io {
  readonly stdin: AsyncIterable<Uint8Array | string>;
  readonly stdout: TextStream;
  readonly stderr: TextStream;
  readonly cwd: string;
  readonly env: Environment;
  /** Aborted when the user interrupts. */
  readonly signal: AbortSignal;
  readonly nodeVersion: string;
  /** `process.platform` */
  readonly platform: string;
  readonly execPath: string;
  /** The script that Node runs, `process.argv[1]`. */
  readonly script?: string | undefined;
  /** Imports a module of the user, by its URL. */
  readonly importModule: (url: string) => Promise<unknown>;
}

type CallerFlags = Readonly<{ actor?: string; session?: string; tenant?: string; user?: string }>;
export type GlobalOptions = CallerFlags & Readonly<{ config?: string; json?: boolean; color: boolean }>;

export interface Context {
  readonly io: Io;
  /** Complete once a command runs: these options may stand before or after its name. */
  readonly globals: GlobalOptions;
  readonly out: CommandOutput;
  readonly program: Command;
  /** Sets the exit code. Default: `done`. */
  end(code: ExitCode): void;
  /** Runs the whole program again, for `qm tour`. */
  run(argv: readonly string[], io: Io): Promise<number>;
}

/** Opens the workspace for one command and closes it afterwards, also after an error. */
export async function withWorkspace<T>(
  { io, globals, out }: Context,
  purpose: WorkspacePurpose,
  work: (workspace: Workspace) => Promise<T> | T,
  watch = false,
): Promise<T> {
  // Imports most of the program. Help, completion and --version do not need it.
  const { openWorkspace } = await import("../workspace/workspace.ts");
  const { cwd, env } = io;
  const onProblem = (problem: string) => out.note(`qm: warning: ${toOneLine(problem)}`);
  const workspace = await openWorkspace({ cwd, env, configPath: globals.config, purpose, watch, onProblem });
  try {
    if (globals.actor !== undefined) await requireKnownActor(workspace, globals.actor, purpose);
    return await work(workspace);
  } finally {
    await workspace.close();
  }
}

/** The ledger may have events of an actor that was removed. Filters find them. */
async function requireKnownActor(workspace: Workspace, actor: string, purpose: WorkspacePurpose): Promise<void> {
  const { config, quartermaster } = workspace;
  if (Object.hasOwn(config.actors, actor)) return;
  if (purpose === "ledger" && (await quartermaster.ledger.read({ actor, limit: 1 })).length > 0) return;
  const { createUnknownActorError } = await import("../app/caller-access.ts");
  throw createUnknownActorError(actor, Object.keys(config.actors));
}

/** A command handler that runs `work` with the open workspace and the arguments of the command. */
export function inWorkspace<Args extends Arguments>(context: Context, purpose: WorkspacePurpose, work: Work<Args>) {
  return (...args: Args) => withWorkspace(context, purpose, (workspace) => work(context, workspace, ...args));
}

export type Arguments = readonly unknown[];
export type Work<Args extends Arguments> = (
  context: Context,
  workspace: Workspace,
  ...args: Args
) => Promise<void> | void;

/** Waits until a call has created the store, then runs `work`, which is to go on until Ctrl-C. */
export async function followStore(
  context: Context,
  pollMs: number,
  work: (workspace: Workspace) => Promise<void>,
  onMissing: () => void = () => {},
): Promise<void> {
  const { signal } = context.io;
  while (!signal.aborted) {
    const isFollowed = await withWorkspace(context, "ledger", async (workspace) => {
      if (!existsSync(workspace.storePath)) return false;
      await work(workspace);
      return true;
    });
    if (isFollowed) break;
    onMissing();
    await pause(pollMs, signal);
  }
  context.end(exitCodes.interrupted);
}

/** Waits, but not longer than until the signal aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => {});
}

/** The path of the configured store, without opening it. */
export async function findStorePath({ io: { cwd, env }, globals }: Context): Promise<string> {
  const { loadConfig } = await import("../config/config-file.ts");
  const { CALL_VARIABLES, compileCondition } = await import("../core/expression.ts");
  const { resolveStorePath } = await import("../workspace/state-paths.ts");
  const compileExpression = (text: string) => compileCondition(text, CALL_VARIABLES);
  return resolveStorePath(await loadConfig(globals.config, { cwd, env, compileExpression }), env);
}

/** Prints a `not_found` error and exits with the code for it. Other errors are thrown. */
export async function reportNotFound<T>({ out, end }: Context, work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (thrown) {
    if (!isNotFound(thrown)) throw thrown;
    out.problem(thrown.toProblem(cliHintWords));
    end(exitCodes.unknown);
    return undefined;
  }
}

export function isNotFound(thrown: unknown): thrown is QmError {
  return thrown instanceof QmError && thrown.code === "not_found";
}

/** The name of the current user, as far as the system knows it. */
export function getSystemUser({ env }: Pick<Io, "env">): string {
  return env.USER || env.USERNAME || readAccountName() || "unknown user";
}

function readAccountName(): string | undefined {
  try {
    return userInfo().username;
  } catch {
    // A container may run as a user id that has no name.
    return undefined;
  }
}

/** The caller that the global options describe. */
export function toCallerOptions({ actor, session, tenant, user }: GlobalOptions): CallerOptions {
  return omitUndefined({ actor, session, tenant, user: user === undefined ? undefined : { id: user } });
}

/** The global options that filter events, approvals and notes. */
export function toOwnerFilter({ session, actor, tenant, user }: GlobalOptions) {
  return omitUndefined({ session, actor, tenant, user });
}

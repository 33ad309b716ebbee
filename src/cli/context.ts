import { userInfo } from "node:os";
import type { Command } from "commander";
import type { CallerOptions } from "../options.ts";
import type { Purpose, Workspace } from "../workspace.ts";
import type { ExitCode } from "./exit-codes.ts";
import type { Io } from "./io.ts";
import type { Output } from "./output.ts";
import { oneLine } from "./text.ts";

/** The options that every command has. */
export interface Globals {
  readonly config?: string;
  readonly actor?: string;
  readonly session?: string;
  readonly tenant?: string;
  readonly user?: string;
  readonly json?: boolean;
  readonly color: boolean;
}

/** What a command works with. */
export interface Context {
  readonly io: Io;
  /** Complete once a command runs: these options may stand before or after its name. */
  readonly globals: Globals;
  readonly out: Output;
  readonly program: Command;
  /** Says how the command ended; not saying it means `done`. */
  end(code: ExitCode): void;
  /** The whole program again, as for `qm tour`. */
  run(argv: readonly string[], io: Io): Promise<number>;
}

/** Opens the workspace for one command and closes it after, however the command ends. */
export async function withWorkspace<T>(
  { io, globals, out }: Context,
  purpose: Purpose,
  work: (workspace: Workspace) => Promise<T> | T,
  { watch = false }: { readonly watch?: boolean } = {},
): Promise<T> {
  // Most of the program hangs on this module, and help, completion and --version need none of it.
  const { openWorkspace } = await import("../workspace.ts");
  const workspace = await openWorkspace({
    cwd: io.cwd,
    env: io.env,
    configPath: globals.config,
    purpose,
    watch,
    onProblem: (problem) => out.note(`qm: warning: ${oneLine(problem)}`),
  });
  try {
    return await work(workspace);
  } finally {
    await workspace.close();
  }
}

/** The person at the keyboard, as far as the system knows. */
export function personOf({ env }: Pick<Io, "env">): string {
  return env.USER || env.USERNAME || accountName() || "somebody at the command line";
}

function accountName(): string | undefined {
  try {
    return userInfo().username;
  } catch {
    // A container may run as a number that has no name.
    return undefined;
  }
}

/** Who asks, as the command line says. */
export function callerOf({ actor, session, tenant, user }: Globals): CallerOptions {
  return {
    ...(actor === undefined ? {} : { actor }),
    ...(session === undefined ? {} : { session }),
    ...(tenant === undefined ? {} : { tenant }),
    ...(user === undefined ? {} : { user: { id: user } }),
  };
}

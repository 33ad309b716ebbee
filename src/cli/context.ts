import { userInfo } from "node:os";
import type { Command } from "commander";
import type { CallerOptions } from "../app/options.ts";
import type { Environment } from "../config/references.ts";
import type { Workspace, WorkspacePurpose } from "../workspace/workspace.ts";
import type { ExitCode } from "./exit-codes.ts";
import type { CommandOutput } from "./output.ts";
import { toOneLine } from "./terminal-text.ts";

/** A stream that text is written to. */
export interface TextStream {
  write(text: string): void;
  readonly isTTY: boolean;
  /** The width of the terminal. Absent: nobody knows, or it is not one. */
  readonly columns?: number | undefined;
}

/** Everything the program has of its process. */
export interface Io {
  readonly stdin: AsyncIterable<Uint8Array | string>;
  readonly stdout: TextStream;
  readonly stderr: TextStream;
  readonly cwd: string;
  readonly env: Environment;
  /** Aborted when the user interrupts. */
  readonly signal: AbortSignal;
  /** As in `20.19.0`. */
  readonly nodeVersion: string;
  /** As `process.platform` says. */
  readonly platform: string;
  /** The file of the Node that runs this. */
  readonly execPath: string;
}

/** The options that every command has. */
export interface GlobalOptions {
  readonly config?: string;
  readonly actor?: string;
  readonly session?: string;
  readonly tenant?: string;
  readonly user?: string;
  readonly json?: boolean;
  readonly color: boolean;
}

/** What a command works with. */
export interface CommandContext {
  readonly io: Io;
  /** Complete once a command runs: these options may stand before or after its name. */
  readonly globals: GlobalOptions;
  readonly out: CommandOutput;
  readonly program: Command;
  /** Says how the command ended; not saying it means `done`. */
  end(code: ExitCode): void;
  /** The whole program again, as for `qm tour`. */
  run(argv: readonly string[], io: Io): Promise<number>;
}

/** Opens the workspace for one command and closes it after, however the command ends. */
export async function withWorkspace<T>(
  { io, globals, out }: CommandContext,
  purpose: WorkspacePurpose,
  work: (workspace: Workspace) => Promise<T> | T,
  { watch = false }: { readonly watch?: boolean } = {},
): Promise<T> {
  // Most of the program hangs on this module, and help, completion and --version need none of it.
  const { openWorkspace } = await import("../workspace/workspace.ts");
  const workspace = await openWorkspace({
    cwd: io.cwd,
    env: io.env,
    configPath: globals.config,
    purpose,
    watch,
    onProblem: (problem) => out.note(`qm: warning: ${toOneLine(problem)}`),
  });
  try {
    return await work(workspace);
  } finally {
    await workspace.close();
  }
}

/** The person at the keyboard, as far as the system knows. */
export function getSystemUser({ env }: Pick<Io, "env">): string {
  return env.USER || env.USERNAME || readAccountName() || "somebody at the command line";
}

function readAccountName(): string | undefined {
  try {
    return userInfo().username;
  } catch {
    // A container may run as a number that has no name.
    return undefined;
  }
}

/** Who asks, as the command line says. */
export function toCallerOptions({ actor, session, tenant, user }: GlobalOptions): CallerOptions {
  return {
    ...(actor === undefined ? {} : { actor }),
    ...(session === undefined ? {} : { session }),
    ...(tenant === undefined ? {} : { tenant }),
    ...(user === undefined ? {} : { user: { id: user } }),
  };
}

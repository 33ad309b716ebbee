/** The files and the network that a program may reach, besides the system's own programs and libraries. */
export interface SandboxGrants {
  readonly network: boolean;
  /** Absolute paths that it may read. */
  readonly read: readonly string[];
  /** Absolute paths that it may read and change. */
  readonly write: readonly string[];
}

export interface SandboxLimits {
  /** For each process. */
  readonly memoryMb: number;
  /** Processes and threads together. */
  readonly processes: number;
  /** For each process. Absent: no limit. */
  readonly cpuSeconds?: number;
  /** The size of one file, and of all files in the private temporary folder. */
  readonly fileMb: number;
}

export interface SandboxSettings extends SandboxGrants, SandboxLimits {}

export interface SandboxRequest {
  readonly settings: SandboxSettings;
  readonly command: readonly string[];
  /** A program that cannot reach this folder starts in its private temporary folder. */
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** The descriptors of the program: the standard streams, then others. */
  readonly streams: readonly SandboxStream[];
}

export type SandboxStream = "pipe" | "ignore";

/** The program to spawn in place of the requested command. Call `sendInputs` with the streams of the child. */
export interface SandboxedCommand {
  readonly file: string;
  readonly args: readonly string[];
  readonly options: {
    readonly cwd: string;
    /** The environment of the sandbox itself. The program gets the requested one. */
    readonly env: Readonly<Record<string, string>>;
    readonly stdio: (SandboxStream | number)[];
    /** The leader of a process group. */
    readonly detached: true;
  };
  /** Texts for the sandbox to read, by descriptor. They hold the variables, which the list of processes must not show. */
  readonly inputs: ReadonlyMap<number, string | Uint8Array>;
  /** The sandbox writes `exit-code` or `started` to it only if the program was started, at the latest when that ends. */
  readonly statusFd: number;
}

export function sendInputs(stdio: readonly unknown[], { inputs }: Pick<SandboxedCommand, "inputs">): void {
  for (const [fd, input] of inputs) {
    const stream = stdio[fd] as { on(event: "error", listener: () => void): unknown; end(input: unknown): unknown };
    // The sandbox may have ended already.
    stream.on("error", () => {});
    stream.end(input);
  }
}

export interface SandboxUser {
  readonly uid: number;
  readonly gid: number;
}

/** The folders of programs that every sandbox shows. */
export const SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin";

/** The problem of a sandbox until it has been tested. */
export const UNTESTED_SANDBOX = "the sandbox has not been tested yet";

export interface Sandbox {
  /** Tests for real, once. Returns why no program can be isolated on this machine, or undefined. */
  findProblem(): Promise<string | undefined>;
  /** Like `findProblem`, but a test that another process has passed on this machine counts. For showing actions only. */
  findKnownProblem(): Promise<string | undefined>;
  /** The last result of both, or `UNTESTED_SANDBOX`. */
  getProblem(): string | undefined;
  /** Throws if programs cannot be isolated, so that none runs without a sandbox. */
  prepare(request: SandboxRequest): Promise<SandboxedCommand>;
  /** The user of a program that may change this folder. Undefined: our own. */
  chooseUser(folder: string | undefined): Promise<SandboxUser | undefined>;
}

/** The sandbox that some programs run in. */
export interface SandboxChoice {
  readonly sandbox: Sandbox;
  readonly settings: SandboxSettings;
}

/** Describes the reach of a program to the person who approves it. */
export function describeSandbox({ network, read, write }: SandboxGrants): string {
  const list = (paths: readonly string[]) => (paths.length === 0 ? "nothing" : paths.join(", "));
  const online = network ? "with network access" : "without network access";
  return `in a sandbox ${online}; besides the system's programs it can read ${list(read)} and change ${list(write)}`;
}

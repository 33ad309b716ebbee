/** What a program in a sandbox may reach besides the system's own programs and libraries. */
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
  /** If the program cannot reach it, it starts in its private temporary folder. */
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** The file descriptor from which the sandbox reads `SandboxedCommand.input`. */
  readonly inputFd: number;
}

/** A command to spawn in place of the one that was requested. */
export interface SandboxedCommand {
  readonly file: string;
  readonly args: readonly string[];
  /** To be written to `inputFd`, which is then closed. It holds the variables, which the list of processes must not show. */
  readonly input: string;
  /** The environment of the sandbox itself. The program gets the requested one. */
  readonly env: Readonly<Record<string, string>>;
  /** The user to start it as, if this process is root. */
  readonly user?: SandboxUser;
}

export interface SandboxUser {
  readonly uid: number;
  readonly gid: number;
}

export interface Sandbox {
  /** Why no program can be isolated on this machine. Undefined: a self-test has passed. */
  findProblem(): Promise<string | undefined>;
  /** Throws if programs cannot be isolated, so that none runs without a sandbox. */
  prepare(request: SandboxRequest): Promise<SandboxedCommand>;
  /** The user of a program that may change this folder. Undefined: our own. */
  chooseUser(folder: string | undefined): Promise<SandboxUser | undefined>;
}

import { spawn } from "node:child_process";
import { once } from "node:events";

export interface ChildOptions {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly limitMs: number;
  readonly input?: string;
}

export interface ChildResult {
  /** The exit code, or a text if the child did not end by itself. */
  readonly code: number | string;
  readonly out: string;
  readonly err: string;
}

/** Runs a program to its end, or stops it and the processes that it started when the time is over. */
export async function runChild(command: string, args: readonly string[], options: ChildOptions): Promise<ChildResult> {
  const { cwd, env, limitMs, input = "" } = options;
  // A process group of its own, so that one signal reaches everything that the child has started.
  const child = spawn(command, args, { cwd, env, detached: true, stdio: ["pipe", "pipe", "pipe"] });
  const stop = () => killGroup(child.pid);
  process.once("exit", stop);
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    stop();
  }, limitMs);
  child.stdin.on("error", () => undefined).end(input);
  const [out, err] = [collect(child.stdout), collect(child.stderr)];
  try {
    const [code, signal] = await once(child, "close");
    return { code: isLate ? `no end within ${limitMs / 1000} s` : (code ?? signal), out: out(), err: err() };
  } catch (thrown) {
    return { code: String(thrown), out: out(), err: err() };
  } finally {
    clearTimeout(timer);
    process.off("exit", stop);
    stop();
  }
}

function killGroup(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL");
  } catch {
    // The group has ended.
  }
}

function collect(stream: NodeJS.ReadableStream): () => string {
  const parts: Buffer[] = [];
  stream.on("data", (part: Buffer) => parts.push(part));
  return () => Buffer.concat(parts).toString("utf8");
}

export function describeEnd(what: string, { code, out, err }: ChildResult): string {
  return `${what} ended with ${code}:\n${`${out}\n${err}`.trim().slice(-2_000)}`;
}

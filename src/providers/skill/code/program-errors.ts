import { escapeUnsafe } from "../../../core/display-text.ts";
import { QmError } from "../../../core/errors.ts";
import { clip } from "../../../core/json.ts";

const MESSAGE_CHARS = 600;
const STDERR_CHARS = 1_000;
/** As the runtimes print it when they end for it. */
const OUT_OF_MEMORY = /out of memory|MemoryError|allocation failed|bad_alloc/i;
const MEMORY_ERROR = /^(?:MemoryError|RangeError: Array buffer allocation failed)/;

const createMemoryError = (skill: string): QmError =>
  new QmError("action_failed", `the skill ${skill} was stopped: it used too much memory`, {
    hint: "Give it less to do at once.",
  });

/** The error that a tool threw. */
export function createToolError(skill: string, error: string): QmError {
  if (MEMORY_ERROR.test(error)) return createMemoryError(skill);
  return new QmError("action_failed", `the skill ${skill} failed: ${clip(escapeUnsafe(error), MESSAGE_CHARS)}`);
}

/** For a program that ended without a result. `errors`: the end of what it wrote to stderr. */
export function createEndError(
  { name, cpuSeconds }: { readonly name: string; readonly cpuSeconds: number },
  { code, signal, errors }: { readonly code: number | null; readonly signal: string | null; readonly errors: string },
): QmError {
  if (code !== 0 && OUT_OF_MEMORY.test(errors)) return createMemoryError(name);
  if (signal === "SIGXCPU")
    return new QmError("action_failed", `the skill ${name} was stopped: it used more than ${cpuSeconds} s of CPU time`);
  const how = signal === null ? `with code ${code}` : `by ${signal}`;
  const stderr = escapeUnsafe(errors.trim().slice(-STDERR_CHARS));
  const details = stderr === "" ? {} : { stderr };
  return new QmError("action_failed", `the skill ${name} ended ${how} before it returned a result`, { details });
}

export function createStartError({ name }: { readonly name: string }, thrown: unknown): QmError {
  const code = (thrown as NodeJS.ErrnoException).code ?? "the system refused it";
  const isFull = ["EAGAIN", "EMFILE", "ENFILE", "ENOMEM"].includes(code);
  const message = `the program of the skill ${name} could not be started: ${code}`;
  return new QmError(isFull ? "overloaded" : "action_failed", message);
}

import { type ErrorCode, QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";

/** The code of a system error such as `ENOENT`, or undefined for any other error. */
export function getErrno(thrown: unknown): string | undefined {
  if (!(thrown instanceof Error) || !("code" in thrown) || typeof thrown.code !== "string") return undefined;
  return /^E[A-Z0-9]+$/.test(thrown.code) ? thrown.code : undefined;
}

type Verb = "open" | "read" | "write" | "delete" | "look at";

const explanations: Record<string, readonly [ErrorCode, (path: string, verb: Verb) => string]> = {
  EACCES: ["action_failed", (path, verb) => `the system does not allow to ${verb} ${path}`],
  EPERM: ["action_failed", (path, verb) => `the system does not allow to ${verb} ${path}`],
  EROFS: ["action_failed", (path) => `${path} is on a read-only disk`],
  ENOSPC: ["action_failed", (path) => `the disk is full: ${path} was not changed`],
  EDQUOT: ["action_failed", (path) => `the disk quota is exceeded: ${path} was not changed`],
  EFBIG: ["too_large", (path) => `the system does not allow a file this large: ${path} was not changed`],
  EISDIR: ["conflict", (path) => `${path} is a folder`],
  ENOTDIR: ["conflict", (path) => `a part of ${path} is not a folder`],
  ENOENT: ["not_found", (path) => `${path} does not exist`],
  ENOTEMPTY: ["conflict", (path) => `the folder ${path} is not empty`],
  ELOOP: ["path_refused", (path) => `${path} is a link that leads outside the root or nowhere`],
  ENAMETOOLONG: ["path_refused", (path) => `${path} is too long`],
  EMFILE: ["overloaded", (path, verb) => `cannot ${verb} ${path}: too many files are open`],
  ENFILE: ["overloaded", (path, verb) => `cannot ${verb} ${path}: too many files are open`],
};

/** Explains a system error without its message, which has absolute paths. Returns other errors unchanged. */
export function explainFsError(thrown: unknown, path: string, verb: Verb): unknown {
  const errno = getErrno(thrown);
  if (errno === undefined) return thrown;
  const [code, text] = explanations[errno] ?? ["action_failed", () => `cannot ${verb} ${quoteName(path)} (${errno})`];
  return new QmError(code, text(quoteName(path), verb), { cause: thrown });
}

export async function explainFsErrors<T>(path: string, verb: Verb, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (thrown) {
    throw explainFsError(thrown, path, verb);
  }
}

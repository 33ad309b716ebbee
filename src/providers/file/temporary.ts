import { randomBytes } from "node:crypto";

const PREFIX = ".qm-tmp-";

/** A name for a file that is being written. A killed process may leave one behind; nothing ever lists or opens it. */
export function temporaryName(): string {
  return PREFIX + randomBytes(8).toString("hex");
}

export function isTemporaryName(name: string): boolean {
  return name.startsWith(PREFIX);
}

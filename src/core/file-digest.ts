import { hash } from "node:crypto";

/** A file that a call would use, as it is listed for the person who approves the call. */
export interface FileDigest {
  /** With `/` between the parts. */
  readonly path: string;
  readonly size: number;
  /** SHA-256 of its bytes, in hexadecimal digits. */
  readonly digest: string;
}

/** The bytes of files by path. */
export type FileBytes = ReadonlyMap<string, Uint8Array>;

/** Finds stored bytes by their digest. They are kept while an approval or a trusted skill refers to them. */
export type GetContent = (digest: string) => Promise<Uint8Array | undefined>;

export const hashBytes = (bytes: Uint8Array): string => hash("sha256", bytes, "hex");

/** The digits of a digest with the name of its algorithm, as MCP servers list it. */
export const toHexDigest = (digest: string): string => digest.slice("sha256:".length);

export const digestFiles = (files: FileBytes): readonly FileDigest[] =>
  Array.from(files, ([path, bytes]) => ({ path, size: bytes.length, digest: hashBytes(bytes) }));

/** One digest of the names and the contents of all files. */
export const hashFiles = (files: readonly Pick<FileDigest, "path" | "digest">[]): string =>
  hash("sha256", files.map(({ path, digest }) => `${JSON.stringify(path)} ${digest}\n`).join(""), "hex");

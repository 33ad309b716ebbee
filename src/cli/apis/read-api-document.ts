import { readFile, realpath, stat } from "node:fs/promises";
import { dirname, isAbsolute, relative, resolve } from "node:path";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { toOneLine } from "../../core/display-text.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import { DOCUMENT_BYTES, type ReadPart } from "../../providers/api/read-document.ts";
import { sendWithFetch } from "../../providers/api/send-request.ts";

interface ApiDocumentText {
  readonly text: string;
  /** The address that relative servers of the document start from. */
  readonly base?: string;
  /** Reads the files that the document refers to. Not for a document from an address. */
  readonly readPart?: ReadPart;
  /** Where it came from, without what could be a secret. */
  readonly source: string;
}

/** Reads a document from a file or an address, packed or not. */
export async function readApiDocument(source: string, cwd: string, signal: AbortSignal): Promise<ApiDocumentText> {
  if (/^https?:\/\//i.test(source)) return download(source, signal);
  const path = resolve(cwd, source);
  const folder = dirname(path);
  try {
    if ((await stat(path)).size > DOCUMENT_BYTES) throw new Error("it is too large");
    const text = await unpack(await readFile(path));
    return { text, readPart: (part) => readFileBeside(folder, part), source: toOneLine(source) };
  } catch (thrown) {
    const isMissing = (thrown as NodeJS.ErrnoException).code === "ENOENT";
    const why = isMissing ? "does not exist" : `cannot be read: ${getErrorMessage(thrown)}`;
    throw new QmError("not_found", `${path} ${why}`, { hint: "Check the path." });
  }
}

async function download(address: string, signal: AbortSignal): Promise<ApiDocumentText> {
  const limits = { maxBytes: DOCUMENT_BYTES, maxRedirects: 0, timeoutMs: 60_000, signal };
  const { origin, pathname } = new URL(address);
  const request = { url: address, method: "GET", headers: { accept: "*/*" }, ...limits };
  const response = await sendWithFetch(request).catch((thrown: unknown) => {
    if (signal.aborted || !(thrown instanceof QmError)) throw thrown;
    // No API is known yet, only the address that the person gave.
    const message = thrown.message.replace(/^the API\b/, quoteName(`${origin}${pathname}`));
    throw new QmError(thrown.code, message, { hint: "Check the address, or try again later." });
  });
  const { location } = response.headers;
  if (response.status >= 300 && response.status < 400 && location !== undefined)
    throw new QmError("action_failed", `the address redirects to ${quoteName(location)}`, {
      hint: "Give that address if you trust it.",
    });
  if (response.status !== 200 || response.truncated)
    throw new QmError(
      "action_failed",
      response.truncated
        ? "the document is too large"
        : `the document cannot be read: the server answered ${response.status}`,
      { hint: "Give the address of the document itself." },
    );
  return { text: await unpack(response.body), base: address, source: toOneLine(`${origin}${pathname}`) };
}

/** Only files in the folder of the document: a document could name any file of this machine. */
async function readFileBeside(folder: string, part: string): Promise<string | undefined> {
  try {
    const path = await realpath(resolve(folder, part));
    const inside = relative(await realpath(folder), path);
    if (inside.startsWith("..") || isAbsolute(inside)) return undefined;
    const { size } = await stat(path);
    return size > DOCUMENT_BYTES ? undefined : await readFile(path, "utf8");
  } catch {
    return undefined;
  }
}

async function unpack(bytes: Uint8Array): Promise<string> {
  const isPacked = bytes[0] === 0x1f && bytes[1] === 0x8b;
  const plain = isPacked ? await promisify(gunzip)(bytes, { maxOutputLength: DOCUMENT_BYTES }) : Buffer.from(bytes);
  return plain.toString("utf8").replace(/^\uFEFF/, "");
}

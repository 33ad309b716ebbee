import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";
import { onAbort } from "../../core/async.ts";
import { QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import { PAGE_WORKER } from "./page-worker.ts";

export interface PageText {
  readonly title?: string | undefined;
  readonly content: string;
  readonly pages?: number;
  /** The page was too deep or had too many elements, so this is its plain text. */
  readonly simplified?: true;
}

export type UnreadPage = { readonly url: string } & (
  | { readonly kind: "html"; readonly page: string }
  | { readonly kind: "pdf"; readonly page: Uint8Array }
);

const HEAP_MB = 256;
const MAX_ELEMENTS = 30_000;
const MAX_DEPTH = 500;
const CONVERT_MS = 20_000;

/**
 * Converts a page to Markdown in a thread of its own, because a page can be made to take any time, memory or stack. Throws
 * `too_large` if it does, and `unsupported_content` for a broken PDF.
 */
export function convertPage(page: UnreadPage, signal: AbortSignal): Promise<PageText> {
  const workerData = { ...page, packages: findPackages(), maxElements: MAX_ELEMENTS, maxDepth: MAX_DEPTH };
  const resourceLimits = { maxOldGenerationSizeMb: HEAP_MB, stackSizeMb: 4 };
  const options = { eval: true, workerData, resourceLimits, env: {}, execArgv: [], stdout: true, stderr: true };
  const worker = new Worker(PAGE_WORKER, options);
  return new Promise<PageText>((resolve, reject) => {
    const failTooLarge = () => reject(createTooLargeError(page.url));
    const timer = setTimeout(failTooLarge, CONVERT_MS);
    const stopListening = onAbort(signal, reject);
    worker
      .on("message", ({ result }: { result?: PageText }) =>
        result === undefined ? reject(createBrokenError(page.url)) : resolve(result),
      )
      .on("error", failTooLarge)
      .on("exit", () => {
        clearTimeout(timer);
        stopListening();
        failTooLarge();
      });
  }).finally(() => worker.terminate());
}

/** The bundled command has these packages beside it, not inside: the thread loads them by their paths. */
function findPackages() {
  const { resolve } = createRequire(import.meta.url);
  return {
    linkedom: resolve("linkedom"),
    readability: resolve("@mozilla/readability"),
    turndown: resolve("turndown"),
    gfm: resolve("turndown-plugin-gfm"),
    unpdf: pathToFileURL(resolve("unpdf")).href,
  };
}

const createTooLargeError = (url: string) =>
  new QmError("too_large", `the page ${quoteName(url)} takes too long or too much memory to convert`, {
    hint: "Fetch it with raw: true, if it is not a PDF.",
  });
const createBrokenError = (url: string) => new QmError("unsupported_content", `the PDF ${quoteName(url)} is broken`);

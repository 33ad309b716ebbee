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
/** Buffers are not part of the heap. A PDF of 1 MB can decompress to 1 GB. */
const MAX_BUFFER_BYTES = 128 * 1024 * 1024;
const THREAD_MS = 20_000;

/**
 * Converts a page to Markdown. Throws `too_large` if it takes too long or too much memory, and `unsupported_content` for a
 * broken PDF.
 */
export async function convertPage(page: UnreadPage, signal: AbortSignal): Promise<PageText> {
  const limits = { maxElements: MAX_ELEMENTS, maxDepth: MAX_DEPTH, maxBufferBytes: MAX_BUFFER_BYTES };
  const answer = await runPageThread<PageText>({ ...page, ...limits }, signal);
  if (answer === "exhausted") {
    throw new QmError("too_large", `the page ${quoteName(page.url)} takes too long or too much memory to convert`, {
      hint: page.kind === "pdf" ? "Use another page." : "Fetch it with raw: true.",
    });
  }
  if (answer === "broken") throw new QmError("unsupported_content", `the PDF ${quoteName(page.url)} is broken`);
  return answer;
}

/** Whether the rules of a robots.txt allow a page. Rules that cannot be evaluated allow nothing. */
export async function isAllowedByRobots(
  rules: { readonly url: string; readonly robots: string; readonly userAgent: string },
  signal: AbortSignal,
): Promise<boolean> {
  const answer = await runPageThread<{ readonly isAllowed: boolean }>({ kind: "robots", ...rules }, signal);
  return typeof answer === "object" && answer.isAllowed;
}

/** A thread of its own for each page, because a page can be made to take any time, memory or stack. */
function runPageThread<Answer>(data: object, signal: AbortSignal): Promise<Answer | "broken" | "exhausted"> {
  const workerData = { ...data, packages: findPackages() };
  const resourceLimits = { maxOldGenerationSizeMb: HEAP_MB, stackSizeMb: 4 };
  const options = { eval: true, workerData, resourceLimits, env: {}, execArgv: [], stdout: true, stderr: true };
  const worker = new Worker(PAGE_WORKER, options);
  return new Promise<Answer | "broken" | "exhausted">((resolve, reject) => {
    const timer = setTimeout(() => resolve("exhausted"), THREAD_MS);
    const stopListening = onAbort(signal, reject);
    worker
      .on("message", resolve)
      .on("error", () => resolve("exhausted"))
      .on("exit", () => {
        clearTimeout(timer);
        stopListening();
        resolve("exhausted");
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
    robots: resolve("robots-parser"),
    unpdf: pathToFileURL(resolve("unpdf")).href,
  };
}

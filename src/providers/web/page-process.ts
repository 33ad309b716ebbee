import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { onAbort } from "../../core/async.ts";
import { QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import { PAGE_PROGRAM } from "./page-program.ts";

export interface PageText {
  readonly title?: string | undefined;
  readonly content: string;
  readonly pages?: number;
  /** The page was too deep or had too many elements, so this is its plain text. */
  readonly simplified?: true;
  /** The content was longer than allowed. */
  readonly truncated?: true;
}

export type UnreadPage = { readonly url: string; readonly maxLength: number } & (
  | { readonly kind: "html"; readonly page: string }
  | { readonly kind: "pdf"; readonly page: Uint8Array }
);

/** Starts Node.js with a program for each page. */
export interface PageProcesses {
  /**
   * Converts a page to Markdown. Throws `too_large` if it takes too long or too much memory, and `unsupported_content` for
   * a broken PDF.
   */
  convertPage(page: UnreadPage, signal: AbortSignal): Promise<PageText>;
  /** Whether the rules of a robots.txt allow a page. Rules that cannot be evaluated allow nothing. */
  isAllowedByRobots(
    rules: { readonly url: string; readonly robots: string; readonly userAgent: string },
    signal: AbortSignal,
  ): Promise<boolean>;
}

const HEAP_MB = 256;
const ROBOTS_LIMITS = { cpuSeconds: 2 };
const PAGE_LIMITS = {
  cpuSeconds: 20,
  maxElements: 100_000,
  maxDepth: 300,
  /** Buffers are not part of the heap. A PDF of 1 MB can decompress to 1 GB. */
  maxBufferBytes: 128 * 1024 * 1024,
};

export function createPageProcesses(nodePath: string): PageProcesses {
  return {
    async convertPage(page, signal) {
      const answer = await runPageProcess<PageText>(nodePath, { ...page, ...PAGE_LIMITS }, signal);
      if (typeof answer === "object") return answer;
      if (answer === "broken")
        throw new QmError("unsupported_content", `the PDF ${quoteName(page.url)} is broken or needs a password`, {
          hint: "Use another page.",
        });
      throw new QmError("too_large", `the page ${quoteName(page.url)} takes too long or too much memory to convert`, {
        hint: page.kind === "pdf" ? "Use another page." : "Fetch it with raw: true.",
      });
    },
    async isAllowedByRobots(rules, signal) {
      const job = { kind: "robots", ...rules, ...ROBOTS_LIMITS };
      const answer = await runPageProcess<{ readonly isAllowed: boolean }>(nodePath, job, signal);
      return typeof answer === "object" && answer.isAllowed;
    },
  };
}

/**
 * A hostile page can take any time, memory or stack, so each page has a process of its own. A thread is not enough: if it
 * runs out of memory, it can end the process it belongs to.
 */
async function runPageProcess<Answer>(
  nodePath: string,
  job: object,
  signal: AbortSignal,
): Promise<Answer | "broken" | "exhausted"> {
  const child = spawn(nodePath, [`--max-old-space-size=${HEAP_MB}`, "--eval", PAGE_PROGRAM], {
    env: {},
    stdio: ["ignore", "ignore", "ignore", "ipc"],
    serialization: "advanced",
    windowsHide: true,
  });
  let stopListening = (): void => {};
  try {
    return await new Promise<Answer | "broken" | "exhausted">((resolve, reject) => {
      stopListening = onAbort(signal, reject);
      // "exit" can come before the last message.
      child
        .on("message", (answer) => resolve(answer as Answer))
        .on("disconnect", () => resolve("exhausted"))
        .on("error", reject);
      child.send({ ...job, packages: findPackages() }, () => {});
    });
  } finally {
    stopListening();
    child.kill("SIGKILL");
  }
}

/** The build replaces it by the folder of the bundled packages. */
declare const PAGE_PACKAGES: string | undefined;

/** The process loads the packages by their paths. */
function findPackages() {
  const own = createRequire(import.meta.url);
  const find = (name: string, from = own) =>
    typeof PAGE_PACKAGES === "string"
      ? own.resolve(`${PAGE_PACKAGES}/${name.replace(/^.*\//, "")}.cjs`)
      : from.resolve(name);
  const linkedom = find("linkedom");
  return {
    linkedom,
    htmlparser: find("htmlparser2", createRequire(linkedom)),
    readability: find("@mozilla/readability"),
    turndown: find("turndown"),
    robots: find("robots-parser"),
    unpdf: find("unpdf"),
  };
}

import { z } from "zod";
import { defineAction } from "../../catalog/define-action.ts";
import type { Action } from "../../core/action.ts";
import { QmError, toErrorDetails } from "../../core/errors.ts";
import { clip, omitUndefined } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import type { GuardedFetch, GuardedResponse } from "../../net/guarded-fetch.ts";
import { convertPage } from "./convert-page.ts";
import { decodePage, getContentKind, readContentType } from "./page-content.ts";
import type { RobotsRules } from "./robots.ts";

export interface PageSource {
  /** Checks robots.txt before it follows a redirect. */
  readonly pages: GuardedFetch;
  /** Absent: robots.txt is ignored. */
  readonly robots: RobotsRules | undefined;
  readonly userAgent: string;
  readonly maxBytes: number;
}

const FETCH_MS = 30_000;
const ACCEPT = "text/html,application/xhtml+xml,application/pdf;q=0.9,text/*;q=0.8,application/json;q=0.8,*/*;q=0.1";

const input = z.strictObject({
  url: z.string().min(1).max(4096).describe("The http or https address of the page."),
  raw: z.boolean().default(false).describe("Return the text as it was sent, for example the HTML itself."),
});

export const fetchPageAction = (source: PageSource): Action =>
  defineAction("web", {
    entry: "fetch",
    description:
      "Fetch a web page as Markdown. Reads HTML, PDF by page, JSON and other text from a public address. To find pages, use search.",
    effect: "external",
    idempotent: true,
    tags: ["web"],
    timeoutMs: 90_000,
    concurrency: 4,
    input,
    normalize: { url: "url" },
    examples: [
      { args: { url: "https://example.com/article" } },
      { args: { url: "https://example.com/feed.xml", raw: true }, description: "The text as it was sent" },
    ],
    run: (args, { signal }) => fetchPage(source, args, signal),
  });

async function fetchPage(
  { pages, robots, userAgent, maxBytes }: PageSource,
  args: z.output<typeof input>,
  signal: AbortSignal,
) {
  if (robots !== undefined && URL.canParse(args.url)) await robots.check(new URL(args.url), signal);
  const headers = { "user-agent": userAgent, accept: ACCEPT };
  const response = await pages.fetch({
    url: args.url,
    headers,
    maxBytes,
    maxRedirects: 10,
    timeoutMs: FETCH_MS,
    signal,
  });
  const { url, status, body, truncated } = response;
  const contentType = readContentType(response.headers["content-type"], body);
  if (status >= 400 || (status >= 300 && body.length === 0)) throw createStatusError(response, contentType);
  const kind = getContentKind(contentType);
  const common = { url, status, content_type: contentType, truncated: truncated || undefined };
  if (kind === "pdf") {
    if (truncated) throw new QmError("too_large", `the PDF ${quoteName(url)} has more than ${maxBytes} bytes`);
    return omitUndefined({ ...common, ...(await convertPage({ kind, page: body, url }, signal)) });
  }
  const text = decodePage(body, response.headers["content-type"]);
  if (kind === "text" || args.raw) return omitUndefined({ ...common, content: text });
  return omitUndefined({ ...common, ...(await convertPage({ kind, page: text, url }, signal)) });
}

/** An HTML error page says little, but an error of an API tells in its text what to do. */
function createStatusError({ url, status, headers, body }: GuardedResponse, contentType: string): QmError {
  const isText = /json$|^text\/plain$/.test(contentType);
  const excerpt = isText ? clip(decodePage(body.subarray(0, 2000), headers["content-type"]), 500) : undefined;
  return new QmError("action_failed", `${quoteName(url)} answered with the status ${status}`, {
    hint:
      status === 404 || status === 410
        ? "The page does not exist: check the address."
        : "Try again later, or use another page.",
    details: toErrorDetails({ url, status, retry_after: headers["retry-after"], excerpt }),
  });
}

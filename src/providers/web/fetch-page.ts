import { z } from "zod";
import { defineAction } from "../../catalog/define-action.ts";
import type { Action } from "../../core/action.ts";
import { QmError, toErrorDetails } from "../../core/errors.ts";
import { clip, omitUndefined } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import type { GuardedFetch, GuardedResponse } from "../../net/guarded-fetch.ts";
import type { PageProcesses } from "./page-process.ts";

export interface PageSource {
  readonly pages: GuardedFetch;
  readonly processes: PageProcesses;
  readonly userAgent: string;
  readonly maxBytes: number;
}

const FETCH_MS = 30_000;
const ACCEPT = "text/html,application/xhtml+xml,application/pdf;q=0.9,text/*;q=0.8,application/json;q=0.8,*/*;q=0.1";

const input = z.lazy(() =>
  z.strictObject({
    url: z.string().min(1).max(4096).describe("The http or https address of the page."),
    raw: z.boolean().default(false).describe("Return the text as it was sent, for example the HTML itself."),
  }),
);

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
  { pages, processes, userAgent, maxBytes }: PageSource,
  args: z.output<typeof input>,
  signal: AbortSignal,
) {
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
  if (kind === "pdf" && truncated) {
    throw new QmError("too_large", `the PDF ${quoteName(url)} has more than ${maxBytes} bytes`, {
      hint: "Use another page. An operator can raise providers.web.max_bytes.",
    });
  }
  const text = kind === "pdf" ? "" : decodePage(body, response.headers["content-type"]);
  if (kind === "text" || (kind === "html" && args.raw)) return omitUndefined({ ...common, content: text });
  const unread = kind === "pdf" ? ({ kind, page: body } as const) : ({ kind, page: text } as const);
  const converted = await processes.convertPage({ ...unread, url, maxLength: maxBytes }, signal);
  return omitUndefined({ ...common, ...converted, note: converted.content === "" ? NO_TEXT[kind] : undefined });
}

const NO_TEXT = {
  html: "The page has no text. Scripts may draw it, and they are not run.",
  pdf: "The PDF has no text. Its pages may be images.",
};

/** An HTML error page says little, but an error of an API tells in its text what to do. */
function createStatusError({ url, status, headers, body }: GuardedResponse, contentType: string): QmError {
  const isText = /json$|^text\/plain$/.test(contentType);
  const excerpt = isText ? clip(decodePage(body.subarray(0, 2000), headers["content-type"]), 500) : undefined;
  return new QmError("action_failed", `${quoteName(url)} answered with the status ${status}`, {
    hint: STATUS_HINTS[status] ?? "Try again later, or use another page.",
    details: toErrorDetails({ url, status, retry_after: headers["retry-after"]?.slice(0, 100), excerpt }),
  });
}

const NO_PAGE = "The page does not exist: check the address.";
const NO_ACCESS = "The site does not show this page to programs or without a login. Use another page.";
const STATUS_HINTS: Readonly<Record<number, string>> = { 401: NO_ACCESS, 403: NO_ACCESS, 404: NO_PAGE, 410: NO_PAGE };

type ContentKind = "html" | "pdf" | "text";

/** The type without its parameters, in lower case. Without a type, the first bytes of the page decide. */
function readContentType(header = "", body: Uint8Array): string {
  const type = header.slice(0, 200).split(";", 1)[0]?.trim().toLowerCase() ?? "";
  if (type !== "" && !type.endsWith("/octet-stream")) return type;
  const start = Buffer.from(body.subarray(0, 1024)).toString("latin1").trimStart().toLowerCase();
  if (start.startsWith("%pdf-")) return "application/pdf";
  if (/^(?:<!doctype html|<html)/.test(start)) return "text/html";
  return start.includes("\0") ? "application/octet-stream" : "text/plain";
}

/** Throws `unsupported_content`. */
function getContentKind(type: string): ContentKind {
  if (type === "text/html" || type === "application/xhtml+xml") return "html";
  if (type === "application/pdf") return "pdf";
  const textTypes =
    /^text\/|^application\/(?:json|xml|javascript|ecmascript|yaml|x-yaml|toml|x-ndjson|jsonl|sql)$|\+(?:json|xml|yaml)$/;
  if (textTypes.test(type)) return "text";
  throw new QmError("unsupported_content", `the page has the type ${quoteName(type)}, which has no text`, {
    hint: "HTML, PDF, JSON and other text can be fetched.",
    details: { content_type: type },
  });
}

/** HTML and XML name their encoding within these first bytes. */
const DECLARATION_BYTES = 2048;
const BYTE_ORDER_MARKS = [
  ["utf-8", [0xef, 0xbb, 0xbf]],
  ["utf-16le", [0xff, 0xfe]],
  ["utf-16be", [0xfe, 0xff]],
] as const;

/** Decodes text as browsers do: a byte order mark counts first, then the header, then the page's own declaration. */
function decodePage(body: Uint8Array, contentType: string | undefined): string {
  const marked = BYTE_ORDER_MARKS.find(([, mark]) => mark.every((byte, index) => body[index] === byte))?.[0];
  const start = Buffer.from(body.subarray(0, DECLARATION_BYTES)).toString("latin1");
  const labels = [
    marked,
    /charset\s*=\s*["']?([\w-]+)/i.exec(contentType ?? "")?.[1],
    /<meta[^>]{1,300}?charset\s*=\s*["']?([\w-]+)/i.exec(start)?.[1],
    /^\s*<\?xml[^>]{1,200}?encoding\s*=\s*["']([\w-]+)/i.exec(start)?.[1],
    "utf-8",
  ];
  for (const label of labels) {
    if (label === undefined) continue;
    try {
      const decoder = new TextDecoder(label);
      // In one piece, some versions of Node.js take windows-1252 for Latin-1.
      return decoder.decode(body, { stream: true }) + decoder.decode();
    } catch {
      // An unknown encoding: the next label counts.
    }
  }
  return "";
}

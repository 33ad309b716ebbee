import { onTestFinished } from "vitest";
import { startServer } from "../../../test/support/local-server.ts";
import { createQuartermaster, type Quartermaster } from "../../app/quartermaster.ts";
import type { Provider } from "../../catalog/define-action.ts";
import { type WebProviderOptions, webProvider } from "./web-provider.ts";

export const createTestWebProvider = (options: Partial<WebProviderOptions>): Provider =>
  webProvider({
    allowHosts: [],
    respectRobots: true,
    maxBytes: 5_000_000,
    userAgent: "Quartermaster/1",
    nodePath: process.execPath,
    elapsed: () => 0,
    ...options,
  });

export async function openWeb(options: Partial<WebProviderOptions> = {}): Promise<Quartermaster> {
  const qm = await createQuartermaster({ providers: [createTestWebProvider(options)], infospace: {} });
  onTestFinished(() => qm.close());
  return qm;
}

/** Pages by path: a type and a body. */
export const servePages = (pages: Readonly<Record<string, readonly [string, string | Buffer]>>): Promise<string> =>
  startServer((request, response) => {
    const page = pages[request.url ?? ""];
    if (page === undefined) return void response.writeHead(404).end();
    response.setHeader("Content-Type", page[0]).end(page[1]);
  });

/** The outcome of fetching one page from a server of its own. */
export async function fetchPage(
  type: string,
  body: string | Buffer,
  { maxBytes, ...args }: { readonly maxBytes?: number; readonly raw?: boolean } = {},
) {
  const host = await servePages({ "/guide/page": [type, body] });
  const qm = await openWeb({ allowHosts: [host], ...(maxBytes === undefined ? {} : { maxBytes }) });
  return qm.invoke("web__fetch", { url: `http://${host}/guide/page`, ...args }, { caller: { session: "s1" } });
}

/** A PDF with one text on each page. */
export function createPdf(texts: readonly string[]): Buffer {
  const kids = texts.map((_, at) => `${10 + 2 * at} 0 R`).join(" ");
  const pages = texts.flatMap((text, at) => {
    const stream = `BT /F1 24 Tf 20 100 Td (${text}) Tj ET`;
    return [
      `${10 + 2 * at} 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 300]/Contents ${11 + 2 * at} 0 R/Resources<</Font<</F1 3 0 R>>>>>>endobj`,
      `${11 + 2 * at} 0 obj<</Length ${stream.length}>>stream\n${stream}\nendstream endobj`,
    ];
  });
  const font = "3 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj";
  const tree = `2 0 obj<</Type/Pages/Kids[${kids}]/Count ${texts.length}>>endobj`;
  const parts = ["%PDF-1.4", "1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj", tree, font, ...pages];
  return Buffer.from([...parts, "trailer<</Root 1 0 R>>"].join("\n"));
}

import { onTestFinished } from "vitest";
import { startServer } from "../../../test/support/local-server.ts";
import { createQuartermaster, type Quartermaster } from "../../app/quartermaster.ts";
import { type WebProviderOptions, webProvider } from "./web-provider.ts";

export async function openWeb(options: Partial<WebProviderOptions> = {}): Promise<Quartermaster> {
  const web = webProvider({ userAgent: "Quartermaster/1", nodePath: process.execPath, elapsed: () => 0, ...options });
  const qm = await createQuartermaster({ providers: [web], infospace: {} });
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

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

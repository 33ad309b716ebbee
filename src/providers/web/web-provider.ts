import type { Provider } from "../../catalog/define-action.ts";
import { createGuardedFetch, type GuardOptions } from "../../net/guarded-fetch.ts";
import { fetchPageAction } from "./fetch-page.ts";
import { createPageProcesses } from "./page-process.ts";
import { createRobotsRules } from "./robots.ts";
import { type SearchEndpoint, searchWebAction } from "./search-web.ts";

export interface WebProviderOptions {
  /** `host` or `host:port` that may be reached although its address is private. */
  readonly allowHosts: readonly string[];
  /** Resolves the names of hosts to all their addresses. Default: the resolver of the system. */
  readonly lookup?: GuardOptions["lookup"];
  readonly respectRobots: boolean;
  /** The bytes of a page, decoded. A longer text is cut. */
  readonly maxBytes: number;
  /** Absent: the action for searching is listed as unavailable. */
  readonly search?: SearchEndpoint | undefined;
  readonly userAgent: string;
  /** The program that runs JavaScript. */
  readonly nodePath: string;
  /** Milliseconds on a steady clock. A robots.txt is read again after an hour. */
  readonly elapsed: () => number;
}

/** Fetches pages and searches the web. Addresses come from models, so only public ones are reached. */
export function webProvider(options: WebProviderOptions): Provider {
  const { allowHosts, respectRobots, maxBytes, lookup, search, userAgent } = options;
  const processes = createPageProcesses(options.nodePath);
  const sites = createGuardedFetch({ allowHosts, lookup });
  const robots = respectRobots ? createRobotsRules(sites, processes, options) : undefined;
  const pages = createGuardedFetch({ allowHosts, lookup, beforeRequest: robots?.check });
  const actions = [fetchPageAction({ pages, processes, userAgent, maxBytes }), searchWebAction(search, userAgent)];
  return {
    category: "web",
    capability: "Read pages of the web and find them.",
    list: () => actions,
    async close() {
      await Promise.all([sites.close(), pages.close()]);
    },
  };
}

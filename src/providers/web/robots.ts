import { QmError } from "../../core/errors.ts";
import { LruMap } from "../../core/lru-map.ts";
import { quoteName } from "../../core/names.ts";
import type { GuardedFetch } from "../../net/guarded-fetch.ts";
import type { PageProcesses } from "./page-process.ts";

export interface RobotsRules {
  /** Throws `address_refused` if the site's robots.txt does not allow this page. */
  check(url: URL, signal: AbortSignal): Promise<void>;
}

const MAX_BYTES = 512 * 1024;
const MAX_SITES = 100;
const FRESH_MS = 3_600_000;

export function createRobotsRules(
  { fetch }: GuardedFetch,
  processes: PageProcesses,
  { userAgent, elapsed }: { readonly userAgent: string; readonly elapsed: () => number },
): RobotsRules {
  const sites = new LruMap<string, { readonly text: Promise<string>; readonly at: number }>(MAX_SITES);

  /** A site without the file allows everything. A site whose server fails allows nothing (RFC 9309). */
  async function load(origin: string): Promise<string> {
    const { status, body } = await fetch({
      url: `${origin}/robots.txt`,
      headers: { "user-agent": userAgent, accept: "text/plain" },
      maxBytes: MAX_BYTES,
      maxRedirects: 5,
      timeoutMs: 10_000,
      // Several callers share the request, so none of them may cancel it.
      signal: new AbortController().signal,
    });
    if (status >= 500) {
      const message = `the robots.txt of ${quoteName(origin)} answered with the status ${status}`;
      const hint = "Without it, no page of the site is fetched. Try again later.";
      throw new QmError("address_refused", message, { hint });
    }
    return status < 300 ? new TextDecoder().decode(body) : "";
  }

  function read(origin: string): Promise<string> {
    const known = sites.get(origin);
    if (known !== undefined && elapsed() - known.at < FRESH_MS) return known.text;
    const text = load(origin);
    const site = { text, at: elapsed() };
    sites.set(origin, site);
    // After a failure, the next call asks again.
    text.catch(() => {
      if (sites.get(origin) === site) sites.delete(origin);
    });
    return text;
  }

  return {
    async check(url, signal) {
      const robots = await read(url.origin);
      if (robots === "" || (await processes.isAllowedByRobots({ url: url.href, robots, userAgent }, signal))) return;
      throw new QmError(
        "address_refused",
        `the robots.txt of ${quoteName(url.host)} does not allow ${quoteName(url.href)}`,
        { hint: "Use another page. An operator can decide to ignore robots.txt." },
      );
    },
  };
}

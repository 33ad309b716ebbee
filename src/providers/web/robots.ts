import { QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import type { GuardedFetch } from "../../net/guarded-fetch.ts";

export interface RobotsRules {
  /** Throws `address_refused` if the site's robots.txt does not allow this page. */
  check(url: URL, signal: AbortSignal): Promise<void>;
}

const MAX_BYTES = 512 * 1024;
const MAX_SITES = 100;
const FRESH_MS = 3_600_000;
/** Characters of rules times characters of the address: matching a rule can take that many steps. */
const MAX_STEPS = 50_000_000;

export function createRobotsRules(
  { fetch }: GuardedFetch,
  { userAgent, elapsed }: { readonly userAgent: string; readonly elapsed: () => number },
): RobotsRules {
  const sites = new Map<string, { readonly text: Promise<string>; readonly at: number }>();

  /** A site without the file allows everything. One that cannot say so now allows nothing, as RFC 9309 has it. */
  async function load(origin: string, signal: AbortSignal): Promise<string> {
    const headers = { "user-agent": userAgent, accept: "text/plain" };
    const url = `${origin}/robots.txt`;
    const { status, body } = await fetch({
      url,
      headers,
      maxBytes: MAX_BYTES,
      maxRedirects: 5,
      timeoutMs: 10_000,
      signal,
    });
    if (status >= 500) return "User-agent: *\nDisallow: /";
    return status < 300 ? new TextDecoder().decode(body) : "";
  }

  async function read(origin: string, signal: AbortSignal): Promise<string> {
    const known = sites.get(origin);
    if (known !== undefined && elapsed() - known.at < FRESH_MS) return known.text;
    const text = load(origin, signal);
    sites.delete(origin);
    if (sites.size >= MAX_SITES) sites.delete(sites.keys().next().value ?? "");
    sites.set(origin, { text, at: elapsed() });
    // A failure, for example because the first caller cancels, is not remembered.
    return text.catch((thrown: unknown) => {
      sites.delete(origin);
      throw thrown;
    });
  }

  return {
    async check(url, signal) {
      const text = await read(url.origin, signal);
      if (text === "") return;
      const loaded = await import("robots-parser");
      // Its types describe an ES module, but it is CommonJS.
      const parseRobots = loaded.default as unknown as typeof loaded.default.default;
      const rules = text.slice(0, MAX_STEPS / url.href.length);
      if (parseRobots(`${url.origin}/robots.txt`, rules).isAllowed(url.href, userAgent) !== false) return;
      throw new QmError(
        "address_refused",
        `the robots.txt of ${quoteName(url.host)} does not allow ${quoteName(url.href)}`,
        {
          hint: "Use another page. An operator can decide to ignore robots.txt.",
        },
      );
    },
  };
}

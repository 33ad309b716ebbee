import { readPackageInfo, systemRuntime } from "../app/system-runtime.ts";
import type { Provider } from "../catalog/define-action.ts";
import type { Config } from "../config/schema.ts";
import { webProvider } from "../providers/web/web-provider.ts";

const BRAVE_URL = "https://api.search.brave.com/res/v1/web/search";

/** `fill` is called for each search, so that a secret stored later counts. */
export function createWebProvider(
  { enabled, search, ...settings }: Config["providers"]["web"],
  fill: (text: string, key: string) => string,
): Provider | undefined {
  if (!enabled) return undefined;
  const fillKey = (text: string | undefined, key: string) => text && fill(text, `providers.web.search.${key}`);
  const endpoint = search && {
    kind: search.kind,
    read: () => ({ url: fillKey(search.url, "url") ?? BRAVE_URL, token: fillKey(search.token, "token") }),
  };
  const userAgent = `Quartermaster/${readPackageInfo().version}`;
  return webProvider({ ...settings, search: endpoint, userAgent, elapsed: systemRuntime.elapsed });
}

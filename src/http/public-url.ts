import type { Config } from "../config/schema.ts";
import { QmError } from "../core/errors.ts";

/** Where people reach us, as the configuration says. Throws `invalid_config` for what is no address. */
export function publicUrlOf({ approvals: { public_url } }: Pick<Config, "approvals">): URL | undefined {
  if (public_url === undefined) return undefined;
  const url = URL.canParse(public_url) ? new URL(public_url) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.search !== "" || url.hash !== "")
    throw new QmError("invalid_config", "approvals.public_url is no address of a page", {
      hint: "Write it as in https://qm.example.com.",
    });
  return url;
}

/** The address of the page that a link leads to, below whatever stands in front of us. */
export function approveUrl(place: URL, token: string): string {
  const url = new URL(place);
  url.pathname = `${url.pathname.replace(/\/$/, "")}/approve`;
  url.search = new URLSearchParams({ t: token }).toString();
  return url.href;
}

import type { Config } from "../config/schema.ts";

/** Where people reach us, as the configuration says. */
export function publicUrlOf({ approvals: { public_url } }: Pick<Config, "approvals">): URL | undefined {
  return public_url === undefined ? undefined : new URL(public_url);
}

/** The address of the page that a link leads to, below whatever stands in front of us. */
export function approveUrl(place: URL, token: string): string {
  const url = new URL(place);
  url.pathname = `${url.pathname.replace(/\/$/, "")}/approve`;
  url.search = new URLSearchParams({ t: token }).toString();
  return url.href;
}

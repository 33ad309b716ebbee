import { z } from "zod";
import { toOneLine } from "../../core/display-text.ts";
import { clip } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { createPeerError, createPeerFetch, type PeerEndpoint } from "./peer-fetch.ts";

/** The part of an agent card that is used. Its texts are the peer's own: people see them, models never do. */
export interface PeerCard {
  readonly name: string;
  readonly description: string;
  readonly version: string;
  readonly streaming: boolean;
  /** The address for JSON-RPC. */
  readonly url: string;
  readonly tenant?: string;
  readonly skills: readonly { readonly id: string; readonly name: string; readonly description: string }[];
}

const CARD_PATH = ".well-known/agent-card.json";
const SKILL_LIMIT = 200;
/** For a card that does not say how long it may be used. */
const USUAL_AGE_MS = 5 * 60_000;
const LONGEST_AGE_MS = 24 * 60 * 60_000;

const line = (limit: number) =>
  z
    .string()
    .catch("")
    .transform((text) => clip(toOneLine(text), limit));
const cardSchema = z.object({
  name: line(200),
  description: line(2_000),
  version: line(100),
  supportedInterfaces: z
    .array(
      z.object({
        url: z.string().max(2_000),
        protocolBinding: z.string(),
        protocolVersion: z.string().catch(""),
        tenant: z.string().max(200).optional(),
      }),
    )
    .max(50),
  capabilities: z.object({ streaming: z.boolean().catch(false) }).catch({ streaming: false }),
  skills: z.array(z.object({ id: line(200), name: line(200), description: line(2_000) })).catch([]),
});

/** The address of the card: the configured one if it is a file, or the usual place below it. */
export function locateCard({ href, pathname }: URL): URL {
  if (pathname.endsWith(".json")) return new URL(href);
  return new URL(CARD_PATH, href.endsWith("/") ? href : `${href}/`);
}

/** Reads the card of a peer, and keeps it as long as its server allows. */
export function createCardReader(peer: string, now: () => number) {
  let kept: { readonly card: PeerCard; readonly key: string; readonly etag: string | null; until: number } | undefined;

  return async (endpoint: PeerEndpoint, signal?: AbortSignal): Promise<PeerCard> => {
    const key = endpoint.url.href;
    const known = kept?.key === key ? kept : undefined;
    if (known !== undefined && now() < known.until) return known.card;
    const headers = { accept: "application/json", "a2a-version": "1.0" };
    const response = await createPeerFetch(peer, endpoint)(locateCard(endpoint.url), {
      headers: { ...headers, ...(known?.etag ? { "if-none-match": known.etag } : {}) },
      ...(signal === undefined ? {} : { signal }),
    });
    const until = now() + readAge(response.headers.get("cache-control"));
    if (response.status === 304 && known !== undefined) {
      known.until = until;
      return known.card;
    }
    if (!response.ok) throw createPeerError(peer, `its card is not there: the server answered ${response.status}`);
    const card = parseCard(peer, await response.text(), endpoint.url.origin);
    kept = { card, key, etag: response.headers.get("etag"), until };
    return card;
  };
}

function parseCard(peer: string, text: string, origin: string): PeerCard {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw createPeerError(peer, "its card is not JSON");
  }
  const parsed = cardSchema.safeParse(value);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw createPeerError(peer, `its card is invalid at ${quoteName(issue?.path.join(".") ?? "")}`);
  }
  const { name, description, version, supportedInterfaces, capabilities, skills } = parsed.data;
  const spoken = supportedInterfaces.filter(({ protocolBinding }) => protocolBinding === "JSONRPC");
  const found = spoken.find(({ protocolVersion }) => protocolVersion === "1.0");
  if (found === undefined) {
    const versions = spoken.map((each) => quoteName(each.protocolVersion)).join(", ");
    throw createPeerError(peer, `it does not speak A2A 1.0 over JSON-RPC${versions && `, but ${versions}`}`);
  }
  // A card that leads elsewhere would get our token and our messages.
  const url = URL.canParse(found.url) ? new URL(found.url) : undefined;
  if (url === undefined || url.origin !== origin)
    throw createPeerError(peer, `its card points to ${quoteName(found.url)}, and it is configured at ${origin}`);
  return {
    name,
    description,
    version,
    streaming: capabilities.streaming,
    url: url.href,
    ...(found.tenant ? { tenant: found.tenant } : {}),
    skills: skills.slice(0, SKILL_LIMIT),
  };
}

/** How long a `Cache-Control` header lets us keep a card, in milliseconds. */
function readAge(control: string | null): number {
  if (/\bno-(?:store|cache)\b/i.test(control ?? "")) return 0;
  const seconds = /\bmax-age=(\d{1,9})\b/i.exec(control ?? "")?.[1];
  return seconds === undefined ? USUAL_AGE_MS : Math.min(Number(seconds) * 1000, LONGEST_AGE_MS);
}

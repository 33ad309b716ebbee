import type { Client } from "@modelcontextprotocol/client";
import type { Era, ServerSpec } from "../server-spec.ts";
import { FOREVER_MS, type Handshake, newClient, type Sdk } from "./sdk-client.ts";
import type { WireTap } from "./wire-tap.ts";

interface EraOptions {
  readonly spec: Pick<ServerSpec, "launch" | "protocol">;
  readonly remembered: Era | undefined;
  readonly clientInfo: { readonly name: string; readonly version: string };
  /** Opens the connection; called again only where the first one ended after it had been refused. */
  readonly open: () => WireTap;
  readonly signal: AbortSignal;
}

export interface Introduced {
  readonly client: Client;
  readonly tap: WireTap;
}

/**
 * Gets to know a server in the era it speaks, on one connection where that can be: a process is not started twice to
 * find out. Standard streams begin with `initialize`, which nearly all servers know and none takes amiss; nothing is
 * concluded from silence, so that a slow start is only slow. Throws what the first handshake met.
 */
export async function introduce(
  sdk: Sdk,
  { spec, remembered, clientInfo, open, signal }: EraOptions,
): Promise<Introduced> {
  const handshakes = handshakesFor(spec, remembered);
  let tap: WireTap | undefined;
  let first: unknown;
  const onAbort = () => void tap?.end().catch(() => undefined);
  signal.addEventListener("abort", onAbort);
  try {
    for (let at = 0; at < handshakes.length; at++) {
      signal.throwIfAborted();
      if (tap === undefined || tap.ended) tap = open();
      else tap.handOver();
      const client = newClient(sdk, clientInfo, handshakes[at] as Handshake);
      try {
        await client.connect(tap, { timeout: FOREVER_MS, signal });
        tap.settle();
        return { client, tap };
      } catch (thrown) {
        first ??= thrown;
        if (!wasRefused(sdk, spec, tap, thrown)) break;
        if (refusesShape(sdk, handshakes[at], thrown)) handshakes.splice(at + 1, 0, "oldest");
      }
    }
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
  await tap?.end().catch(() => undefined);
  signal.throwIfAborted();
  throw first;
}

function handshakesFor({ launch, protocol }: EraOptions["spec"], remembered: Era | undefined): Handshake[] {
  if (protocol !== "auto") return [protocol];
  if (launch.kind === "http") return ["auto"];
  return remembered === "modern" ? ["modern", "legacy"] : ["legacy", "modern"];
}

/** The other side is there and said no to this handshake; anything else is a failure that another would meet too. */
function wasRefused(sdk: Sdk, { launch }: EraOptions["spec"], tap: WireTap, thrown: unknown): boolean {
  if (thrown instanceof sdk.ProtocolError) return true;
  return launch.kind === "stdio" && tap.answered && !tap.ended;
}

/** Some servers up to 2025-06-18 refuse an `initialize` with members they do not know. */
function refusesShape(sdk: Sdk, handshake: Handshake | undefined, thrown: unknown): boolean {
  const anotherEra = [-32601, -32022];
  return (
    (handshake === "legacy" || handshake === "auto") &&
    thrown instanceof sdk.ProtocolError &&
    !anotherEra.includes(thrown.code)
  );
}

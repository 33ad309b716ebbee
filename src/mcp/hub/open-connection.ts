import type { Client } from "@modelcontextprotocol/client";
import type { McpTelemetry } from "../../telemetry/mcp-span.ts";
import type { ServerOffer } from "../manifests/offer.ts";
import type { ProtocolEra, ServerSpec } from "../server-spec.ts";
import { ServerConnection } from "./connection.ts";
import type { ListingLimits } from "./list-offer.ts";
import { createSdkClient, FOREVER_MS, type Handshake, loadSdk, type Sdk } from "./sdk-client.ts";
import { toAbortError, withServerOutput, wrapServerError } from "./server-errors.ts";
import { createTransportFactory, type ServerTransport, type TransportPorts } from "./server-transport.ts";
import { TrackingTransport } from "./tracking-transport.ts";

interface NegotiationOptions {
  readonly spec: Pick<ServerSpec, "launch" | "protocol">;
  readonly remembered: ProtocolEra | undefined;
  readonly clientInfo: { readonly name: string; readonly version: string };
  /** Opens the connection; called again only where the first one ended after it had been refused. */
  readonly open: () => TrackingTransport;
  readonly signal: AbortSignal;
}

interface NegotiatedClient {
  readonly client: Client;
  readonly tap: TrackingTransport;
}

/**
 * Gets to know a server in the era it speaks, on one connection where that can be: a process is not started twice to
 * find out. Standard streams begin with `initialize`, which nearly all servers know and none takes amiss; nothing is
 * concluded from silence, so that a slow start is only slow. Throws what the first handshake met.
 */
async function negotiateEra(
  sdk: Sdk,
  { spec, remembered, clientInfo, open, signal }: NegotiationOptions,
): Promise<NegotiatedClient> {
  const handshakes = listHandshakes(spec, remembered);
  let tap: TrackingTransport | undefined;
  let first: unknown;
  const onAbort = () => void tap?.end().catch(() => undefined);
  signal.addEventListener("abort", onAbort);
  try {
    for (let at = 0; at < handshakes.length; at++) {
      signal.throwIfAborted();
      if (tap === undefined || tap.ended) tap = open();
      else tap.detachClient();
      const client = createSdkClient(sdk, clientInfo, handshakes[at] as Handshake);
      try {
        await client.connect(tap, { timeout: FOREVER_MS, signal });
        tap.settle();
        return { client, tap };
      } catch (thrown) {
        first ??= thrown;
        if (!isRefusal(sdk, spec, tap, thrown)) break;
        if (isShapeRefusal(sdk, handshakes[at], thrown)) handshakes.splice(at + 1, 0, "oldest");
      }
    }
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
  await tap?.end().catch(() => undefined);
  signal.throwIfAborted();
  throw first;
}

function listHandshakes(
  { launch, protocol }: NegotiationOptions["spec"],
  remembered: ProtocolEra | undefined,
): Handshake[] {
  if (protocol !== "auto") return [protocol];
  if (launch.kind === "http") return ["auto"];
  return remembered === "modern" ? ["modern", "legacy"] : ["legacy", "modern"];
}

/** The other side is there and said no to this handshake; anything else is a failure that another would meet too. */
function isRefusal(sdk: Sdk, { launch }: NegotiationOptions["spec"], tap: TrackingTransport, thrown: unknown): boolean {
  if (thrown instanceof sdk.ProtocolError) return true;
  return launch.kind === "stdio" && tap.answered && !tap.ended;
}

/** Some servers up to 2025-06-18 refuse an `initialize` with members they do not know. */
function isShapeRefusal(sdk: Sdk, handshake: Handshake | undefined, thrown: unknown): boolean {
  const anotherEra = [-32601, -32022];
  return (
    (handshake === "legacy" || handshake === "auto") &&
    thrown instanceof sdk.ProtocolError &&
    !anotherEra.includes(thrown.code)
  );
}

export interface ConnectionPorts extends TransportPorts {
  readonly clientInfo: { readonly name: string; readonly version: string };
  readonly listingLimits: ListingLimits;
  readonly telemetry: McpTelemetry;
}

interface ConnectionOptions {
  readonly remembered: ProtocolEra | undefined;
  /** Awaited after every listing; until then no request goes out. */
  readonly learned: (offer: ServerOffer) => Promise<void>;
  readonly signal: AbortSignal;
}

/** Starts or reaches a server, gets to know it, and reads what it offers. Throws a `QmError`, and leaves nothing behind. */
export async function openConnection(
  spec: ServerSpec,
  ports: ConnectionPorts,
  { remembered, learned, signal }: ConnectionOptions,
): Promise<ServerConnection> {
  const sdk = await loadSdk();
  if (signal.aborted) throw toAbortError(signal);
  const openWire = createTransportFactory(sdk, spec, ports);
  let wire: ServerTransport | undefined;
  let tapped: TrackingTransport | undefined;
  try {
    const open = () => {
      wire = openWire();
      tapped = new TrackingTransport(wire.transport);
      return tapped;
    };
    const { client, tap } = await negotiateEra(sdk, { spec, remembered, clientInfo: ports.clientInfo, open, signal });
    const { listingLimits, telemetry } = ports;
    const connection = new ServerConnection(
      spec,
      client,
      tap,
      wire as unknown as ServerTransport,
      listingLimits,
      telemetry,
      learned,
    );
    await connection.start(signal);
    return connection;
  } catch (thrown) {
    const said = (await wire?.describeExit(tapped?.ended === true)) ?? "";
    const failure = signal.aborted ? toAbortError(signal) : ((await wire?.failure(thrown)) ?? wrapServerError(thrown));
    await wire?.end().catch(() => undefined);
    throw said === "" || failure.code !== "server_failed" ? failure : withServerOutput(failure, said);
  }
}

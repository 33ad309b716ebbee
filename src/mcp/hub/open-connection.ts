import type { McpTelemetry } from "../../telemetry/mcp-span.ts";
import type { Offer } from "../manifest/offer.ts";
import type { Era, ServerSpec } from "../server-spec.ts";
import { abortError, asError } from "./aborted.ts";
import { Connection } from "./connection.ts";
import { introduce } from "./era.ts";
import { withWords } from "./failures.ts";
import type { ListingLimits } from "./listing.ts";
import { loadSdk } from "./sdk-client.ts";
import { type Wire, type WirePorts, wiresTo } from "./wire.ts";
import { WireTap } from "./wire-tap.ts";

export interface ConnectionPorts extends WirePorts {
  readonly clientInfo: { readonly name: string; readonly version: string };
  readonly listingLimits: ListingLimits;
  readonly telemetry: McpTelemetry;
}

export interface ConnectionOptions {
  readonly remembered: Era | undefined;
  /** Awaited after every listing; until then no request goes out. */
  readonly learned: (offer: Offer) => Promise<void>;
  readonly signal: AbortSignal;
}

/** Starts or reaches a server, gets to know it, and reads what it offers. Throws a `QmError`, and leaves nothing behind. */
export async function openConnection(
  spec: ServerSpec,
  ports: ConnectionPorts,
  { remembered, learned, signal }: ConnectionOptions,
): Promise<Connection> {
  const sdk = await loadSdk();
  if (signal.aborted) throw abortError(signal);
  const openWire = wiresTo(sdk, spec, ports);
  let wire: Wire | undefined;
  let tapped: WireTap | undefined;
  try {
    const open = () => {
      wire = openWire();
      tapped = new WireTap(wire.transport);
      return tapped;
    };
    const { client, tap } = await introduce(sdk, { spec, remembered, clientInfo: ports.clientInfo, open, signal });
    const { listingLimits, telemetry } = ports;
    const connection = new Connection(spec, client, tap, wire as unknown as Wire, listingLimits, telemetry, learned);
    await connection.begin(signal);
    return connection;
  } catch (thrown) {
    const said = (await wire?.lastWords(tapped?.ended === true)) ?? "";
    const failure = signal.aborted ? abortError(signal) : ((await wire?.failure(thrown)) ?? asError(thrown));
    await wire?.end().catch(() => undefined);
    throw said === "" || failure.code !== "server_failed" ? failure : withWords(failure, said);
  }
}

import type { Client } from "@modelcontextprotocol/client";
import { onAbort } from "../../core/async.ts";
import { QmError } from "../../core/errors.ts";
import type { ServerOffer } from "../manifests/offer.ts";
import type { ProtocolEra, ServerSpec } from "../server-spec.ts";
import { ServerConnection } from "./connection.ts";
import type { HubContext } from "./hub.ts";
import { createSdkClient, FOREVER_MS, type Handshake, loadSdk, type Sdk } from "./sdk-client.ts";
import { toAbortError, withServerOutput, wrapServerError } from "./server-errors.ts";
import { createTransportFactory, type ServerTransport } from "./server-transport.ts";
import { TrackingTransport } from "./tracking-transport.ts";

export type OnOffer = (offer: ServerOffer) => Promise<unknown>;
type OpenOptions = { stopped: AbortSignal; knownEra?: ProtocolEra | undefined; onOffer: OnOffer };

/** Starts or reaches a server within its start timeout and reads its offer. Throws a `QmError` and leaves nothing running. */
export async function openConnection(spec: ServerSpec, context: HubContext, options: OpenOptions) {
  const { stopped, knownEra, onOffer } = options;
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(startTimeoutError(spec)), spec.startTimeoutMs);
  const signal = AbortSignal.any([stopped, late.signal]);
  let wire: ServerTransport | undefined;
  let tap: TrackingTransport | undefined;
  try {
    const sdk = await loadSdk();
    if (signal.aborted) throw toAbortError(signal);
    const openWire = createTransportFactory(sdk, spec, context);
    const open: OpenLink = () => {
      wire = openWire();
      tap = new TrackingTransport(wire.transport);
      return { wire, tap };
    };
    const link = await negotiateEra(sdk, spec, context, listHandshakes(spec, knownEra), open, signal);
    const connection = new ServerConnection(spec, context, link, onOffer);
    await connection.start(signal);
    return connection;
  } catch (thrown) {
    const output = (await wire?.describeExit(tap?.ended === true)) ?? "";
    const failure = signal.aborted ? toAbortError(signal) : ((await wire?.failure(thrown)) ?? wrapServerError(thrown));
    await wire?.end().catch(() => undefined);
    throw output === "" || failure.code !== "server_failed" ? failure : withServerOutput(failure, output);
  } finally {
    clearTimeout(timer);
  }
}

export type ConnectedClient = {
  readonly client: Client;
  readonly tap: TrackingTransport;
  readonly wire: ServerTransport;
};
type OpenLink = () => Omit<ConnectedClient, "client">;

/**
 * Finds out which era a server speaks, on one connection if possible: the process is not started twice. On stdio
 * `initialize` goes first, since nearly all servers know it. A timeout proves nothing, so that a slow start is only
 * slow. Throws the error of the first handshake.
 */
async function negotiateEra(
  sdk: Sdk,
  spec: ServerSpec,
  { clientInfo }: HubContext,
  handshakes: Handshake[],
  open: OpenLink,
  signal: AbortSignal,
): Promise<ConnectedClient> {
  let link: ReturnType<OpenLink> | undefined;
  let first: unknown;
  const end = async () => link?.tap.end().catch(() => undefined);
  const stopListening = onAbort(signal, () => void end());
  try {
    for (let at = 0; at < handshakes.length; at++) {
      signal.throwIfAborted();
      if (link === undefined || link.tap.ended) link = open();
      else link.tap.detachClient();
      const { tap } = link;
      const client = createSdkClient(sdk, clientInfo, handshakes[at] as Handshake);
      try {
        await client.connect(tap, { timeout: FOREVER_MS, signal });
        tap.settle();
        return { client, ...link };
      } catch (thrown) {
        first ??= thrown;
        // Any other failure would stop the next handshake too.
        const isRefused =
          thrown instanceof sdk.ProtocolError || (spec.launch.kind === "stdio" && tap.answered && !tap.ended);
        if (!isRefused) break;
        if (isShapeRefusal(sdk, handshakes[at], thrown)) handshakes.splice(at + 1, 0, "oldest");
      }
    }
  } finally {
    stopListening();
  }
  await end();
  signal.throwIfAborted();
  throw first;
}

function listHandshakes({ launch, protocol }: ServerSpec, knownEra: ProtocolEra | undefined): Handshake[] {
  if (protocol !== "auto") return [protocol];
  if (launch.kind === "http") return ["auto"];
  return knownEra === "modern" ? ["modern", "legacy"] : ["legacy", "modern"];
}

/** Some servers up to 2025-06-18 refuse an `initialize` with members they do not know. */
function isShapeRefusal(sdk: Sdk, handshake: Handshake | undefined, thrown: unknown): boolean {
  if (handshake !== "legacy" && handshake !== "auto") return false;
  const isOtherEra = (code: number) => code === -32601 || code === -32022;
  return thrown instanceof sdk.ProtocolError && !isOtherEra(thrown.code);
}

function startTimeoutError({ name, startTimeoutMs }: ServerSpec): QmError {
  return new QmError("server_failed", `server ${name} did not answer within ${startTimeoutMs} ms of its start`, {
    hint: "The first start of a package may take long. Raise `start_timeout_ms` of the server if it needs longer.",
  });
}

import { silentTracer, type Tracer } from "../../core/tracing.ts";
import { createFaces } from "./faces.ts";
import { GATEWAY_LIMITS, type Gateway, type GatewayOptions, type Listening } from "./gateway.ts";
import { createHeldCalls } from "./held-calls.ts";
import { serveHttp } from "./http.ts";
import { createLegacySessions } from "./legacy-sessions.ts";
import { listen } from "./listen.ts";
import { serveStdio } from "./stdio.ts";
import { createSubscriptions } from "./subscriptions.ts";

/** `tracer`: told of every request, and of how long sessions last. Absent: nobody is. */
export function createGateway(options: GatewayOptions & { readonly tracer?: Tracer }): Gateway {
  const { quartermaster, upstream, runtime, onProblem } = options;
  const limits = { ...GATEWAY_LIMITS, ...options.limits };
  const held = createHeldCalls(runtime, limits);
  const subscriptions = createSubscriptions();
  const telemetry = { tracer: options.tracer ?? silentTracer, elapsed: runtime.elapsed };
  const faces = createFaces({ options, limits, telemetry, held, subscriptions });
  const sessions = createLegacySessions(runtime, limits);
  const listening = new Set<Listening>();
  const closing = new AbortController();

  const watching = [
    quartermaster.onChange(() => faces.changed("tools")),
    upstream?.onChange(faces.changed),
    upstream?.onResourceUpdated(subscriptions.updated),
  ];
  const fetch: Gateway["fetch"] = (request, profile, remote) =>
    serveHttp(faces.of(profile), sessions, limits, request, remote);

  return {
    fetch,
    async serveStdio(stdio) {
      const signal = AbortSignal.any([stdio.signal, closing.signal]);
      await serveStdio({ face: faces.of(stdio.profile), runtime, limits, onProblem }, { ...stdio, signal });
    },
    async listen(where) {
      const opened = await listen({ limits, onProblem, fetch }, where);
      const one: Listening = {
        url: opened.url,
        async close() {
          listening.delete(one);
          await opened.close();
        },
      };
      listening.add(one);
      return one;
    },
    async close() {
      for (const stop of watching) stop?.();
      closing.abort();
      held.close();
      // Sockets are let go last: what is open on them ends with the sessions.
      const sockets = [...listening].map((one) => one.close());
      await Promise.all([sessions.close(), faces.close()]);
      await Promise.all(sockets);
    },
  };
}

import type { Approvals } from "../approval/approvals.ts";
import { visibleJson } from "../core/visible.ts";

/** A proxy that hears nothing for a minute hangs up. */
const HEARTBEAT_MS = 20_000;

/** Changes that a reader may be behind; then it is hung up on, and comes back to look at the list. */
const QUEUED = 1_000;

const HEADERS = { "content-type": "text/event-stream", "cache-control": "no-store", "x-accel-buffering": "no" };

/** Every change of an approval as an event of a stream, until somebody hangs up. */
export function changeStream(approvals: Pick<Approvals, "onChange">, signal: AbortSignal): Response {
  const encoder = new TextEncoder();
  let stop = (): void => {};
  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        const send = (text: string): void => {
          if ((controller.desiredSize ?? 0) > 0) controller.enqueue(encoder.encode(text));
          else end();
        };
        const end = (): void => {
          stop();
          controller.close();
        };
        const stopListening = approvals.onChange((approval) =>
          send(`event: approval\nid: ${approval.id}.${approval.state}\ndata: ${visibleJson(approval)}\n\n`),
        );
        const heartbeat = setInterval(() => send(":\n\n"), HEARTBEAT_MS);
        stop = () => {
          stopListening();
          clearInterval(heartbeat);
          signal.removeEventListener("abort", end);
        };
        send("retry: 2000\n\n");
        if (signal.aborted) end();
        else signal.addEventListener("abort", end);
      },
      cancel: () => stop(),
    },
    new CountQueuingStrategy({ highWaterMark: QUEUED }),
  );
  return new Response(body, { headers: HEADERS });
}

import type { SpanContext } from "@opentelemetry/api";
import type { TraceCarrier } from "../core/tracing.ts";

type Api = typeof import("@opentelemetry/api");

const TRACEPARENT = /^(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/** A span as W3C headers. Empty for one that is nobody's parent. */
export function carrierOf(api: Api, { traceId, spanId, traceFlags, traceState }: SpanContext): TraceCarrier {
  if (!api.isSpanContextValid({ traceId, spanId, traceFlags })) return {};
  const flags = (traceFlags & 0xff).toString(16).padStart(2, "0");
  const tracestate = traceState?.serialize() ?? "";
  return { traceparent: `00-${traceId}-${spanId}-${flags}`, ...(tracestate === "" ? {} : { tracestate }) };
}

/** The span that somebody elsewhere names. They may write anything; what is no trace is none. */
export function spanContextOf(api: Api, { traceparent, tracestate }: TraceCarrier): SpanContext | undefined {
  const read = typeof traceparent === "string" ? TRACEPARENT.exec(traceparent) : null;
  const [, version, traceId = "", spanId = "", flags = "", more] = read ?? [];
  if (version === "00" && more !== undefined) return undefined;
  const context = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
  if (!api.isSpanContextValid(context)) return undefined;
  return typeof tracestate === "string" ? { ...context, traceState: api.createTraceState(tracestate) } : context;
}

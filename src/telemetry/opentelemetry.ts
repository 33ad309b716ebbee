import type { Attributes, Context, Histogram, MeterProvider, Span as OtelSpan, SpanContext } from "@opentelemetry/api";
import { settlesWithin } from "../core/async.ts";
import { QmError } from "../core/errors.ts";
import { getOwn, isRecord, omitUndefined } from "../core/json.ts";
import type { Span, SpanFacts, SpanKind, TraceCarrier, Tracer } from "../core/tracing.ts";
import { createSafeTracer } from "./safe-tracer.ts";

type Api = typeof import("@opentelemetry/api");

export interface OpenTelemetryOptions {
  /** Whether spans have arguments, results and error texts, with secrets removed. Default: no. */
  readonly content?: boolean;
  /** The version of this package. */
  readonly version?: string;
  /** Default: the installed package `@opentelemetry/api`. */
  readonly api?: Api;
}

const SCOPE = "quartermaster";
const KINDS = { internal: "INTERNAL", client: "CLIENT", server: "SERVER" } as const satisfies Record<SpanKind, string>;

/**
 * A tracer for the global OpenTelemetry providers that the host has registered or will register. It brings no SDK and sends
 * nothing itself. Rejects with `invalid_config` if `@opentelemetry/api` is not installed.
 */
export async function openTelemetryTracer(options: OpenTelemetryOptions = {}): Promise<Tracer> {
  const { content = false, version } = options;
  const api = options.api ?? (await importApi());
  // A parent in this process is the span itself; only a carrier from outside is parsed.
  const ownSpans = new WeakMap<TraceCarrier, OtelSpan>();
  const getHistogram = createHistogramCache(api, version);

  function createParentContext(active: Context, parent: TraceCarrier): Context | undefined {
    const span = ownSpans.get(parent);
    if (span !== undefined) return api.trace.setSpan(active, span);
    const remote = parseSpanContext(api, parent);
    return remote && api.trace.setSpanContext(active, remote);
  }

  function start(name: string, kind: SpanKind, facts: SpanFacts, parent: TraceCarrier | undefined): Span {
    const active = api.context.active();
    const given = parent && createParentContext(active, parent);
    // A request names the trace it belongs to, so the span of its transport becomes only a link.
    const transport = kind === "server" && given !== undefined ? api.trace.getSpanContext(active) : undefined;
    const options = {
      kind: api.SpanKind[KINDS[kind]],
      attributes: toAttributes(facts),
      links: transport === undefined ? [] : [{ context: transport }],
    };
    const span = api.trace.getTracer(SCOPE, version).startSpan(name, options, given ?? active);
    const context = api.trace.setSpan(given ?? active, span);
    let carrier: TraceCarrier | undefined;
    return {
      set: (more) => void span.setAttributes(toAttributes(more)),
      fail(type, message) {
        const status = { code: api.SpanStatusCode.ERROR, ...(message === undefined ? {} : { message }) };
        span.setAttribute("error.type", type).setStatus(status);
      },
      rename: (to) => void span.updateName(to),
      carrier() {
        if (carrier !== undefined) return carrier;
        carrier = toCarrier(api, span.spanContext());
        ownSpans.set(carrier, span);
        return carrier;
      },
      within: (work) => api.context.with(context, work),
      end: () => span.end(),
    };
  }

  return createSafeTracer({
    content,
    start,
    took: (metric, seconds, facts) => getHistogram(metric).record(seconds, toAttributes(facts)),
    flush: () => flushProviders(api),
  });
}

/** Long enough for a collector nearby. An absent one must not hold up a command. */
const FLUSH_LIMIT_MS = 2_000;

/** Only the SDK's providers can flush, so the API has no type for it. */
async function flushProviders(api: Api): Promise<void> {
  const tracing = api.trace.getTracerProvider();
  const providers: { forceFlush?: () => Promise<void> }[] = [
    "getDelegate" in tracing && typeof tracing.getDelegate === "function" ? tracing.getDelegate() : tracing,
    api.metrics.getMeterProvider(),
  ];
  await settlesWithin(Promise.allSettled(providers.map(async (each) => each.forceFlush?.())), FLUSH_LIMIT_MS);
}

const TRACEPARENT = /^(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/** A span as W3C headers. Empty for an invalid span. */
function toCarrier(api: Api, { traceId, spanId, traceFlags, traceState }: SpanContext): TraceCarrier {
  if (!api.isSpanContextValid({ traceId, spanId, traceFlags })) return {};
  const flags = (traceFlags & 0xff).toString(16).padStart(2, "0");
  const tracestate = traceState?.serialize() ?? "";
  return { traceparent: `00-${traceId}-${spanId}-${flags}`, ...(tracestate === "" ? {} : { tracestate }) };
}

/** Parses foreign headers, which may hold anything. Undefined if they name no valid span. */
function parseSpanContext(api: Api, { traceparent, tracestate }: TraceCarrier): SpanContext | undefined {
  const match = typeof traceparent === "string" ? TRACEPARENT.exec(traceparent) : null;
  const [, version, traceId = "", spanId = "", flags = "", more] = match ?? [];
  if (version === "00" && more !== undefined) return undefined;
  const context = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
  if (!api.isSpanContextValid(context)) return undefined;
  return typeof tracestate === "string" ? { ...context, traceState: api.createTraceState(tracestate) } : context;
}

function toAttributes(facts: SpanFacts): Attributes {
  return omitUndefined(facts) as Attributes;
}

const OPERATION_SECONDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];
const TOOL_SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/** Descriptions from the GenAI and MCP semantic conventions. */
const metricDescriptions: Readonly<Record<string, string>> = {
  "gen_ai.execute_tool.duration": "The duration of a single tool execution.",
  "mcp.client.operation.duration": "The duration of an MCP request as observed on the sender.",
  "mcp.server.operation.duration": "The duration of an MCP request as observed on the receiver.",
  "mcp.client.session.duration": "The duration of the MCP session as observed on the MCP client.",
  "mcp.server.session.duration": "The duration of the MCP session as observed on the MCP server.",
};

/** Drops its histograms when the host registers another provider: those of the old one would stay silent. */
function createHistogramCache(api: Api, version: string | undefined): (metric: string) => Histogram {
  let provider: MeterProvider | undefined;
  let cached = new Map<string, Histogram>();
  return (metric) => {
    const current = api.metrics.getMeterProvider();
    if (current !== provider) cached = new Map();
    provider = current;
    const known = cached.get(metric);
    if (known !== undefined) return known;
    const description = getOwn(metricDescriptions, metric);
    const boundaries = metric.startsWith("mcp.") ? OPERATION_SECONDS : TOOL_SECONDS;
    const advice = { explicitBucketBoundaries: [...boundaries] };
    const options = { unit: "s", ...(description === undefined ? {} : { description, advice }) };
    const histogram = current.getMeter(SCOPE, version).createHistogram(metric, options);
    cached.set(metric, histogram);
    return histogram;
  };
}

async function importApi(): Promise<Api> {
  try {
    return await import("@opentelemetry/api");
  } catch (thrown) {
    if (!isRecord(thrown) || thrown.code !== "ERR_MODULE_NOT_FOUND") throw thrown;
    throw new QmError("invalid_config", "telemetry is on, but the package @opentelemetry/api is not installed", {
      hint: "Run: npm i @opentelemetry/api, together with the OpenTelemetry SDK of your choice.",
      cause: thrown,
    });
  }
}

import type { Attributes, Context, Histogram, MeterProvider, Span as OtherSpan, SpanContext } from "@opentelemetry/api";
import { QmError } from "../core/errors.ts";
import { getOwn, isRecord } from "../core/json.ts";
import {
  type Span,
  type SpanFacts,
  type SpanKind,
  silentTracer,
  type TraceCarrier,
  type Tracer,
} from "../core/tracing.ts";

interface HistogramAdvice {
  readonly description: string;
  /** In seconds. */
  readonly boundaries: readonly number[];
}

const OPERATION = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];
const TOOL = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/** The histograms of the GenAI and MCP conventions that are filled here, with the boundaries they ask for. */
const histograms: Readonly<Record<string, HistogramAdvice>> = {
  "gen_ai.execute_tool.duration": { description: "The duration of a single tool execution.", boundaries: TOOL },
  "mcp.client.operation.duration": {
    description: "The duration of an MCP request as observed on the sender.",
    boundaries: OPERATION,
  },
  "mcp.server.operation.duration": {
    description: "The duration of an MCP request as observed on the receiver.",
    boundaries: OPERATION,
  },
  "mcp.client.session.duration": {
    description: "The duration of the MCP session as observed on the MCP client.",
    boundaries: OPERATION,
  },
  "mcp.server.session.duration": {
    description: "The duration of the MCP session as observed on the MCP server.",
    boundaries: OPERATION,
  },
};

type TraceApi = typeof import("@opentelemetry/api");

const TRACEPARENT = /^(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/** A span as W3C headers. Empty for one that is nobody's parent. */
function toCarrier(api: TraceApi, { traceId, spanId, traceFlags, traceState }: SpanContext): TraceCarrier {
  if (!api.isSpanContextValid({ traceId, spanId, traceFlags })) return {};
  const flags = (traceFlags & 0xff).toString(16).padStart(2, "0");
  const tracestate = traceState?.serialize() ?? "";
  return { traceparent: `00-${traceId}-${spanId}-${flags}`, ...(tracestate === "" ? {} : { tracestate }) };
}

/** The span that somebody elsewhere names. They may write anything; what is no trace is none. */
function parseSpanContext(api: TraceApi, { traceparent, tracestate }: TraceCarrier): SpanContext | undefined {
  const read = typeof traceparent === "string" ? TRACEPARENT.exec(traceparent) : null;
  const [, version, traceId = "", spanId = "", flags = "", more] = read ?? [];
  if (version === "00" && more !== undefined) return undefined;
  const context = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
  if (!api.isSpanContextValid(context)) return undefined;
  return typeof tracestate === "string" ? { ...context, traceState: api.createTraceState(tracestate) } : context;
}

type Api = typeof import("@opentelemetry/api");

export interface OpenTelemetryOptions {
  /** Whether arguments, results and error texts are told, too, with secrets taken out. Absent: they are not. */
  readonly content?: boolean;
  /** What tells: the version of this package. */
  readonly version?: string;
  /** Absent: the package `@opentelemetry/api` that is installed. */
  readonly api?: Api;
}

const SCOPE = "quartermaster";
const KINDS = { internal: "INTERNAL", client: "CLIENT", server: "SERVER" } as const satisfies Record<SpanKind, string>;

/**
 * Tells whomever the host has registered with OpenTelemetry, now or later: the global tracer and meter providers. It
 * brings no SDK and sends nothing itself. Rejects with `invalid_config` where `@opentelemetry/api` is not installed.
 */
export async function openTelemetryTracer(options: OpenTelemetryOptions = {}): Promise<Tracer> {
  const { content = false, version } = options;
  const api = options.api ?? (await importApi());
  // Within this process a parent is the span itself; only what comes from elsewhere is read from its headers.
  const own = new WeakMap<TraceCarrier, OtherSpan>();
  const getHistogram = createHistogramCache(api, version);

  function createParentContext(active: Context, parent: TraceCarrier): Context | undefined {
    const span = own.get(parent);
    if (span !== undefined) return api.trace.setSpan(active, span);
    const elsewhere = parseSpanContext(api, parent);
    return elsewhere && api.trace.setSpanContext(active, elsewhere);
  }

  function beginSpan(name: string, kind: SpanKind, facts: SpanFacts, parent: TraceCarrier | undefined): Span {
    const active = api.context.active();
    const given = parent && createParentContext(active, parent);
    // The request says which trace it belongs to; whatever carried it here is only worth a link.
    const carriedBy = kind === "server" && given !== undefined ? api.trace.getSpanContext(active) : undefined;
    const span = api.trace.getTracer(SCOPE, version).startSpan(
      name,
      {
        kind: api.SpanKind[KINDS[kind]],
        attributes: toAttributes(facts),
        links: carriedBy === undefined ? [] : [{ context: carriedBy }],
      },
      given ?? active,
    );
    const context = api.trace.setSpan(given ?? active, span);
    let carrier: TraceCarrier | undefined;
    return {
      set: (more) => ignoreErrors(() => span.setAttributes(toAttributes(more))),
      fail(type, message) {
        const status = { code: api.SpanStatusCode.ERROR, ...(message === undefined ? {} : { message }) };
        ignoreErrors(() => span.setAttribute("error.type", type).setStatus(status));
      },
      rename: (to) => ignoreErrors(() => span.updateName(to)),
      carrier() {
        if (carrier !== undefined) return carrier;
        carrier = toCarrier(api, span.spanContext());
        own.set(carrier, span);
        return carrier;
      },
      within(work) {
        let began = false;
        try {
          return api.context.with(context, () => {
            began = true;
            return work();
          });
        } catch (thrown) {
          if (began) throw thrown;
          return work();
        }
      },
      end: () => ignoreErrors(() => span.end()),
    };
  }

  return {
    content,
    start(name, kind, facts, parent) {
      try {
        return beginSpan(name, kind, facts, parent);
      } catch {
        return silentTracer.start(name, kind, facts, parent);
      }
    },
    took: (metric, seconds, facts) => ignoreErrors(() => getHistogram(metric).record(seconds, toAttributes(facts))),
  };
}

/** Instruments of whichever provider is registered at the moment: one made before that would stay silent for ever. */
function createHistogramCache(api: Api, version: string | undefined): (metric: string) => Histogram {
  let provider: MeterProvider | undefined;
  let made = new Map<string, Histogram>();
  return (metric) => {
    const now = api.metrics.getMeterProvider();
    if (now !== provider) made = new Map();
    provider = now;
    const known = made.get(metric);
    if (known !== undefined) return known;
    const advice = getOwn(histograms, metric);
    const histogram = now.getMeter(SCOPE, version).createHistogram(metric, {
      unit: "s",
      ...(advice && {
        description: advice.description,
        advice: { explicitBucketBoundaries: [...advice.boundaries] },
      }),
    });
    made.set(metric, histogram);
    return histogram;
  };
}

function toAttributes(facts: SpanFacts): Attributes {
  const told = Object.entries(facts).filter(([, value]) => value !== undefined);
  return Object.fromEntries(told) as Attributes;
}

/** Whoever listens may be broken; what is told of goes on. */
function ignoreErrors(tell: () => unknown): void {
  try {
    tell();
  } catch {
    // Nobody is there to be told of it.
  }
}

async function importApi(): Promise<Api> {
  try {
    return await import("@opentelemetry/api");
  } catch (thrown) {
    if (!isRecord(thrown) || thrown.code !== "ERR_MODULE_NOT_FOUND") throw thrown;
    throw new QmError("invalid_config", "telemetry is on, and the package @opentelemetry/api is not installed", {
      hint: "Run: npm i @opentelemetry/api, together with the OpenTelemetry SDK that is to be told.",
      cause: thrown,
    });
  }
}

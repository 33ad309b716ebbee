import type { Attributes, Context, Histogram, MeterProvider, Span as OtherSpan } from "@opentelemetry/api";
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
import { histograms } from "./histograms.ts";
import { carrierOf, spanContextOf } from "./trace-context.ts";

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
  const api = options.api ?? (await installedApi());
  // Within this process a parent is the span itself; only what comes from elsewhere is read from its headers.
  const own = new WeakMap<TraceCarrier, OtherSpan>();
  const histogramOf = histogramsOf(api, version);

  function under(active: Context, parent: TraceCarrier): Context | undefined {
    const span = own.get(parent);
    if (span !== undefined) return api.trace.setSpan(active, span);
    const elsewhere = spanContextOf(api, parent);
    return elsewhere && api.trace.setSpanContext(active, elsewhere);
  }

  function started(name: string, kind: SpanKind, facts: SpanFacts, parent: TraceCarrier | undefined): Span {
    const active = api.context.active();
    const given = parent && under(active, parent);
    // The request says which trace it belongs to; whatever carried it here is only worth a link.
    const carriedBy = kind === "server" && given !== undefined ? api.trace.getSpanContext(active) : undefined;
    const span = api.trace.getTracer(SCOPE, version).startSpan(
      name,
      {
        kind: api.SpanKind[KINDS[kind]],
        attributes: attributesOf(facts),
        links: carriedBy === undefined ? [] : [{ context: carriedBy }],
      },
      given ?? active,
    );
    const context = api.trace.setSpan(given ?? active, span);
    let carrier: TraceCarrier | undefined;
    return {
      set: (more) => quietly(() => span.setAttributes(attributesOf(more))),
      fail(type, message) {
        const status = { code: api.SpanStatusCode.ERROR, ...(message === undefined ? {} : { message }) };
        quietly(() => span.setAttribute("error.type", type).setStatus(status));
      },
      rename: (to) => quietly(() => span.updateName(to)),
      carrier() {
        if (carrier !== undefined) return carrier;
        carrier = carrierOf(api, span.spanContext());
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
      end: () => quietly(() => span.end()),
    };
  }

  return {
    content,
    start(name, kind, facts, parent) {
      try {
        return started(name, kind, facts, parent);
      } catch {
        return silentTracer.start(name, kind, facts, parent);
      }
    },
    took: (metric, seconds, facts) => quietly(() => histogramOf(metric).record(seconds, attributesOf(facts))),
  };
}

/** Instruments of whichever provider is registered at the moment: one made before that would stay silent for ever. */
function histogramsOf(api: Api, version: string | undefined): (metric: string) => Histogram {
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

function attributesOf(facts: SpanFacts): Attributes {
  const told = Object.entries(facts).filter(([, value]) => value !== undefined);
  return Object.fromEntries(told) as Attributes;
}

/** Whoever listens may be broken; what is told of goes on. */
function quietly(tell: () => unknown): void {
  try {
    tell();
  } catch {
    // Nobody is there to be told of it.
  }
}

async function installedApi(): Promise<Api> {
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

import * as api from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  AggregationTemporality,
  type HistogramMetricData,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import { type ReadableSpan, SimpleSpanProcessor, type SpanExporter, TracerProvider } from "@opentelemetry/sdk-trace";
import { onTestFinished } from "vitest";

/** A span as a test looks at it: its place in the trace by name, and what was told. */
export interface SeenSpan {
  readonly name: string;
  readonly kind: string;
  readonly id: string;
  readonly traceId: string;
  readonly parent: string | undefined;
  readonly parentIsRemote: boolean;
  readonly links: readonly string[];
  readonly status: string;
  readonly message: string | undefined;
  readonly attributes: Readonly<Record<string, unknown>>;
}

export interface SeenPoint {
  readonly metric: string;
  readonly unit: string;
  readonly boundaries: readonly number[];
  readonly count: number;
  readonly sum: number;
  readonly attributes: Readonly<Record<string, unknown>>;
}

export interface ListeningSdk {
  /** Those that have ended, in the order in which they began. */
  spans(): readonly SeenSpan[];
  points(): Promise<readonly SeenPoint[]>;
  flush(): Promise<void>;
}

/** The real SDK, registered as a host does it, and taken away with the test. */
export function createListeningSdk(exporter?: SpanExporter): ListeningSdk {
  const begun: ReadableSpan[] = [];
  const done = async () => {};
  const noting = {
    onStart: (span: ReadableSpan) => void begun.push(span),
    onEnd() {},
    forceFlush: done,
    shutdown: done,
  };
  const exporting = exporter === undefined ? [] : [new SimpleSpanProcessor({ exporter })];
  const tracing = new TracerProvider({ spanProcessors: [noting, ...exporting] });
  const metrics = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter: metrics, exportIntervalMillis: 3_600_000 });
  const metering = new MeterProvider({ readers: [reader] });
  api.context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  api.trace.setGlobalTracerProvider(tracing);
  api.metrics.setGlobalMeterProvider(metering);
  onTestFinished(async () => {
    for (const part of [api.trace, api.metrics, api.context]) part.disable();
    await Promise.all([tracing.shutdown(), metering.shutdown()]);
  });
  return {
    spans: () => begun.filter(({ ended }) => ended).map(toSeenSpan),
    async points() {
      metrics.reset();
      await metering.forceFlush();
      const data = metrics.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((scope) => scope.metrics));
      return (data as HistogramMetricData[]).flatMap(({ descriptor, dataPoints }) =>
        dataPoints.map(({ attributes, value }) => ({
          metric: descriptor.name,
          unit: descriptor.unit,
          boundaries: value.buckets.boundaries,
          count: value.count,
          sum: value.sum ?? 0,
          attributes,
        })),
      );
    },
    flush: () => tracing.forceFlush(),
  };
}

function toSeenSpan(span: ReadableSpan): SeenSpan {
  const { spanId, traceId } = span.spanContext();
  return {
    name: span.name,
    kind: api.SpanKind[span.kind],
    id: spanId,
    traceId,
    parent: span.parentSpanContext?.spanId,
    parentIsRemote: span.parentSpanContext?.isRemote === true,
    links: span.links.map(({ context }) => context.spanId),
    status: api.SpanStatusCode[span.status.code],
    message: span.status.message,
    attributes: span.attributes,
  };
}

export type TraceCarrier = { readonly traceparent?: string; readonly tracestate?: string };
export type SpanKind = "internal" | "client" | "server";
export type SpanFacts = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;

/** One traced piece of work. Never throws. */
export interface Span {
  set(facts: SpanFacts): void;
  /** Marks the work as failed. `type` is a code, not a sentence. */
  fail(type: string, message?: string): void;
  rename(name: string): void;
  /** The headers for work inside it. Empty without a tracer. */
  carrier(): TraceCarrier;
  /** Runs work with this span as the parent of others. Returns or throws as the work does. */
  within<T>(work: () => T): T;
  end(): void;
}

/** Records spans and durations. Never throws. */
export interface Tracer {
  readonly content: boolean;
  start(name: string, kind: SpanKind, facts: SpanFacts, parent?: TraceCarrier): Span;
  took(metric: string, seconds: number, facts: SpanFacts): void;
  /** Sends what has ended, for a process that is about to exit. Waits for a limited time and never rejects. */
  flush?(): Promise<void>;
}

const silentSpan: Span = { set() {}, fail() {}, rename() {}, carrier: () => ({}), within: (work) => work(), end() {} };
export const silentTracer: Tracer = { content: false, start: () => silentSpan, took() {} };

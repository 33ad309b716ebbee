/** The trace a call belongs to, as W3C headers. */
export interface TraceCarrier {
  readonly traceparent?: string;
  readonly tracestate?: string;
}

export type SpanKind = "internal" | "client" | "server";

export type SpanFacts = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;

/** One piece of work that others are told of. Never throws. */
export interface Span {
  set(facts: SpanFacts): void;
  /** It went wrong; `type` is a code, not a sentence. */
  fail(type: string, message?: string): void;
  /** What it is about is known only now. */
  rename(name: string): void;
  /** What work inside it is to be told. Empty where nobody listens. */
  carrier(): TraceCarrier;
  /** Runs work so that what others trace in it belongs here. Throws and answers what the work does. */
  within<T>(work: () => T): T;
  end(): void;
}

/** Tells others what is done and how long it takes. Never throws. */
export interface Tracer {
  /** Whether arguments and results may be told, too. */
  readonly content: boolean;
  start(name: string, kind: SpanKind, facts: SpanFacts, parent?: TraceCarrier): Span;
  /** How long something took, in a histogram of that name. */
  took(metric: string, seconds: number, facts: SpanFacts): void;
}

const silentSpan: Span = { set() {}, fail() {}, rename() {}, carrier: () => ({}), within: (work) => work(), end() {} };

/** Nobody listens. */
export const silentTracer: Tracer = { content: false, start: () => silentSpan, took() {} };

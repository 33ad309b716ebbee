import { type Span, silentTracer, type Tracer } from "../core/tracing.ts";

/** Wraps a tracer so that its errors never reach the traced work. */
export function createSafeTracer(tracer: Tracer): Tracer {
  if (tracer === silentTracer) return tracer;
  return {
    content: tracer.content,
    start: (name, kind, facts, parent) =>
      attempt(
        () => createSafeSpan(tracer.start(name, kind, facts, parent)),
        () => silentTracer.start(name, kind, facts),
      ),
    took: (metric, seconds, facts) => ignoreErrors(() => tracer.took(metric, seconds, facts)),
  };
}

function createSafeSpan(span: Span): Span {
  return {
    set: (facts) => ignoreErrors(() => span.set(facts)),
    rename: (name) => ignoreErrors(() => span.rename(name)),
    fail: (type, message) => ignoreErrors(() => span.fail(type, message)),
    carrier: () =>
      attempt(
        () => span.carrier(),
        () => ({}),
      ),
    within: (work) => runWithin(span, work),
    end: () => ignoreErrors(() => span.end()),
  };
}

/** Runs the work once, and returns or throws as it does, even if the span throws before or after it. */
function runWithin<T>(span: Span, work: () => T): T {
  let result: (() => T) | undefined;
  ignoreErrors(() =>
    span.within(() => {
      result = capture(work);
    }),
  );
  return (result ?? capture(work))();
}

/** Runs the work now; the answered function repeats its result or its error. */
function capture<T>(work: () => T): () => T {
  try {
    const answer = work();
    return () => answer;
  } catch (thrown) {
    return () => {
      throw thrown;
    };
  }
}

function attempt<T>(work: () => T, otherwise: () => T): T {
  try {
    return work();
  } catch {
    return otherwise();
  }
}

function ignoreErrors(work: () => void): void {
  attempt(work, () => {});
}

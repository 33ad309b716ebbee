import { type Span, silentTracer, type Tracer } from "../core/tracing.ts";

/** Wraps a tracer so that its errors never reach the traced work. */
export function createSafeTracer(tracer: Tracer): Tracer {
  if (tracer === silentTracer) return tracer;
  return {
    content: tracer.content,
    start(name, kind, facts, parent) {
      const span = attempt(() => createSafeSpan(tracer.start(name, kind, facts, parent)));
      return span ?? silentTracer.start(name, kind, facts);
    },
    took: (metric, seconds, facts) => attempt(() => tracer.took(metric, seconds, facts)),
    flush: async () => tracer.flush?.().catch(() => {}),
  };
}

function createSafeSpan(span: Span): Span {
  return {
    set: (facts) => attempt(() => span.set(facts)),
    rename: (name) => attempt(() => span.rename(name)),
    fail: (type, message) => attempt(() => span.fail(type, message)),
    carrier: () => attempt(() => span.carrier()) ?? {},
    within: (work) => runWithin(span, work),
    end: () => attempt(() => span.end()),
  };
}

/** Runs the work once, and returns or throws as it does, even if the span throws before or after it. */
function runWithin<T>(span: Span, work: () => T): T {
  let result: (() => T) | undefined;
  attempt(() =>
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

function attempt<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}

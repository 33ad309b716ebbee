import { type Span, silentTracer, type Tracer } from "../core/tracing.ts";

/** A tracer of somebody else's, held to what tracers promise: nothing that is done depends on telling of it. */
export function safeTracer(tracer: Tracer): Tracer {
  if (tracer === silentTracer) return tracer;
  return {
    content: tracer.content,
    start: (name, kind, facts, parent) =>
      attempted(
        () => safeSpan(tracer.start(name, kind, facts, parent)),
        () => silentTracer.start(name, kind, facts),
      ),
    took: (metric, seconds, facts) =>
      attempted(
        () => tracer.took(metric, seconds, facts),
        () => {},
      ),
  };
}

function safeSpan(span: Span): Span {
  return {
    set: (facts) =>
      attempted(
        () => span.set(facts),
        () => {},
      ),
    rename: (name) =>
      attempted(
        () => span.rename(name),
        () => {},
      ),
    fail: (type, message) =>
      attempted(
        () => span.fail(type, message),
        () => {},
      ),
    carrier: () =>
      attempted(
        () => span.carrier(),
        () => ({}),
      ),
    within: (work) => within(span, work),
    end: () =>
      attempted(
        () => span.end(),
        () => {},
      ),
  };
}

/** The work is done once, and what it answers or throws is what counts. */
function within<T>(span: Span, work: () => T): T {
  let done: { readonly answer: T } | { readonly thrown: unknown } | undefined;
  try {
    span.within(() => {
      done = outcomeOf(work);
    });
  } catch {
    // Told below: of the work, not of the telling.
  }
  const { answer, thrown } = { answer: undefined, thrown: undefined, ...(done ?? outcomeOf(work)) };
  if (thrown !== undefined) throw thrown;
  return answer as T;
}

function outcomeOf<T>(work: () => T): { readonly answer: T } | { readonly thrown: unknown } {
  try {
    return { answer: work() };
  } catch (thrown) {
    return { thrown };
  }
}

function attempted<T>(work: () => T, otherwise: () => T): T {
  try {
    return work();
  } catch {
    return otherwise();
  }
}

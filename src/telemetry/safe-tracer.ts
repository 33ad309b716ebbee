import { type Span, silentTracer, type Tracer } from "../core/tracing.ts";

/** A tracer of somebody else's, held to what tracers promise: nothing that is done depends on telling of it. */
export function createSafeTracer(tracer: Tracer): Tracer {
  if (tracer === silentTracer) return tracer;
  return {
    content: tracer.content,
    start: (name, kind, facts, parent) =>
      attempt(
        () => createSafeSpan(tracer.start(name, kind, facts, parent)),
        () => silentTracer.start(name, kind, facts),
      ),
    took: (metric, seconds, facts) =>
      attempt(
        () => tracer.took(metric, seconds, facts),
        () => {},
      ),
  };
}

function createSafeSpan(span: Span): Span {
  return {
    set: (facts) =>
      attempt(
        () => span.set(facts),
        () => {},
      ),
    rename: (name) =>
      attempt(
        () => span.rename(name),
        () => {},
      ),
    fail: (type, message) =>
      attempt(
        () => span.fail(type, message),
        () => {},
      ),
    carrier: () =>
      attempt(
        () => span.carrier(),
        () => ({}),
      ),
    within: (work) => within(span, work),
    end: () =>
      attempt(
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
      done = captureResult(work);
    });
  } catch {
    // Told below: of the work, not of the telling.
  }
  const { answer, thrown } = { answer: undefined, thrown: undefined, ...(done ?? captureResult(work)) };
  if (thrown !== undefined) throw thrown;
  return answer as T;
}

function captureResult<T>(work: () => T): { readonly answer: T } | { readonly thrown: unknown } {
  try {
    return { answer: work() };
  } catch (thrown) {
    return { thrown };
  }
}

function attempt<T>(work: () => T, otherwise: () => T): T {
  try {
    return work();
  } catch {
    return otherwise();
  }
}

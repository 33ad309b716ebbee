import { QmError } from "../core/errors.ts";
import { clip } from "../core/json.ts";
import { type Course, type CourseOptions, startCourse } from "./course.ts";

/** A routed call that has not ended yet. */
export interface CallUnderWay {
  readonly callId: string;
  readonly action: string;
  readonly actor: string;
  readonly since: Date;
}

/** Everything that was begun and not ended. */
export interface UnderWay {
  /** Does the work as something that can be stopped. Rejects with `cancelled` once closed. Without `call`: nobody's. */
  run<T>(
    options: CourseOptions,
    call: CallUnderWay | undefined,
    work: (course: Course) => T | PromiseLike<T>,
  ): Promise<T>;
  calls(): readonly CallUnderWay[];
  /** Whether there was such a call. */
  cancel(callId: string, reason: string | undefined): boolean;
  /** Throws `cancelled` once closed. */
  refuseWhenClosed(): void;
  /** Stops everything, for good. Resolves when all of it is answered. */
  close(): Promise<void>;
}

export function createUnderWay(): UnderWay {
  const open = new Set<{ readonly course: Course; readonly call: CallUnderWay | undefined }>();
  let closing: Promise<void> | undefined;
  let onIdle: (() => void) | undefined;

  function refuseWhenClosed(): void {
    if (closing !== undefined) throw isClosing();
  }

  return {
    async run(options, call, work) {
      refuseWhenClosed();
      const course = startCourse(options);
      const entry = { course, call };
      open.add(entry);
      try {
        return await work(course);
      } finally {
        course.end();
        open.delete(entry);
        if (open.size === 0) onIdle?.();
      }
    },
    calls: () => [...open].flatMap(({ call }) => (call === undefined ? [] : [call])),
    cancel(callId, reason) {
      const found = [...open].filter(({ call }) => call?.callId === callId);
      for (const { course, call } of found) course.stop(wasCancelled(call?.action ?? "", reason));
      return found.length > 0;
    },
    refuseWhenClosed,
    close() {
      closing ??= new Promise((resolve) => {
        onIdle = resolve;
        for (const { course } of open) course.stop(isClosing());
        if (open.size === 0) resolve();
      });
      return closing;
    },
  };
}

export function wasCancelled(what: string, reason?: string): QmError {
  return new QmError("cancelled", `${what} was cancelled${reason === undefined ? "" : `: ${clip(reason, 200)}`}`);
}

function isClosing(): QmError {
  return new QmError("cancelled", "the system is closing");
}

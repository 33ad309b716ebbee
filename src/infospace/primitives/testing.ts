import type { Action, CallContext } from "../../core/action.ts";
import type { LogLine } from "../../core/dialogue.ts";
import type { JsonObject } from "../../core/json.ts";
import { type Outcome, VALUE_LIMIT } from "../../core/outcome.ts";
import type { NoteSearch } from "../search/note-search.ts";
import { memoryInfospace, someone } from "../testing.ts";
import type { Primitives } from "./parts.ts";

/** Primitives over an infospace in memory, called as a handler is called. */
export function primitives(make: Primitives, context: Partial<CallContext> = {}, valueLimit = VALUE_LIMIT) {
  const infospace = memoryInfospace();
  const previewLimit = Math.min(1_000, valueLimit);
  const actions = make({ infospace, search: undefined as unknown as NoteSearch, previewLimit, valueLimit });
  const given: CallContext = {
    caller: someone,
    callId: "call-1",
    signal: new AbortController().signal,
    untimed: (work) => work(),
    sees: () => true,
    invoke: () => Promise.reject(new Error("nothing to call")),
    settled: async (outcome: Outcome) => outcome,
    ...context,
  };
  return {
    infospace,
    async run(entry: string, args: JsonObject): Promise<JsonObject> {
      const action = actions.find((each) => each.entry === entry) as Action;
      return (await action.run(args, given)) as JsonObject;
    },
  };
}

/** A dialogue that only listens. */
export function listening() {
  const lines: LogLine[] = [];
  const dialogue = {
    owner: "them",
    capabilities: {},
    progress: () => {},
    log: (line: LogLine) => void lines.push(line),
    ask: () => Promise.reject(new Error("nobody answers")),
  };
  return { lines, dialogue };
}

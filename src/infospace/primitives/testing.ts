import fc from "fast-check";
import type { Action, CallContext } from "../../core/action.ts";
import type { LogLine } from "../../core/caller.ts";
import { canonicalJson, type Json, type JsonObject } from "../../core/json.ts";
import { VALUE_LIMIT } from "../../core/outcome.ts";
import type { NoteSearch } from "../search/note-search.ts";
import { createMemoryInfospace, testCaller } from "../testing.ts";
import type { PrimitiveOptions } from "./derive.ts";
import type { DerivedItems, PrimitiveItem } from "./operation.ts";

/** Names that have hurt others before. */
export const hostileKeys = [
  "a",
  "b",
  "id",
  "n",
  "x.y",
  "__proto__",
  "constructor",
  "toString",
  "",
  "ü😀",
  "right_a",
  "0",
];

const scalar = fc.oneof(
  fc.constant(null),
  fc.boolean(),
  fc.constantFrom(-1, 0, 1, 2, 2.5),
  fc.constantFrom("", "a", "b", "1", "true", "é", "e\u0301", "😀", "\ud800", "\0"),
);

const { value } = fc.letrec<{ value: Json; object: JsonObject }>((tie) => ({
  value: fc.oneof({ depthSize: "small", maxDepth: 3 }, scalar, fc.array(tie("value"), { maxLength: 3 }), tie("object")),
  object: objectOf(tie("value")),
}));

export const anyJson: fc.Arbitrary<Json> = value;

/** Few values, so that keys repeat. */
const anyRecord: fc.Arbitrary<JsonObject> = objectOf(
  fc.oneof({ weight: 4, arbitrary: scalar }, { weight: 1, arbitrary: value }),
);

export const anyItem: fc.Arbitrary<Json> = fc.oneof(
  { weight: 5, arbitrary: anyRecord },
  { weight: 1, arbitrary: value },
);

function objectOf(values: fc.Arbitrary<Json>): fc.Arbitrary<JsonObject> {
  const entries = fc.array(fc.tuple(fc.constantFrom(...hostileKeys), values), { maxLength: 6 });
  return entries.map((pairs) => Object.fromEntries(pairs));
}

export async function* streamItems(contents: readonly Json[], firstId?: number): AsyncGenerator<PrimitiveItem> {
  for (const [index, content] of contents.entries())
    yield firstId === undefined ? { content } : { id: firstId + index, content };
}

/** What came out, and what is said of it. */
export async function readAll<Report extends JsonObject>({ items, report }: DerivedItems<Report>) {
  const inputs: PrimitiveItem[] = [];
  for await (const each of items) inputs.push(each);
  return { inputs, contents: inputs.map(({ content }) => content), report: report() };
}

/** Endless, and says how many of it were read. */
export function createEndlessItems(make: (index: number) => Json): {
  inputs: AsyncIterable<PrimitiveItem>;
  read(): number;
} {
  let read = 0;
  async function* inputs(): AsyncGenerator<PrimitiveItem> {
    for (;;) yield { content: make(read++) };
  }
  return { inputs: inputs(), read: () => read };
}

/** For comparing: what matchers overlook, such as a field called `__proto__`, counts here. */
export function toTexts(contents: readonly Json[]): readonly string[] {
  return contents.map((content) => canonicalJson(content));
}

/** Primitives over an infospace in memory, called as a handler is called. */
export function createTestPrimitives(
  make: (parts: PrimitiveOptions) => Action | readonly Action[],
  context: Partial<CallContext> = {},
  valueLimit = VALUE_LIMIT,
) {
  const infospace = createMemoryInfospace();
  const previewLimit = Math.min(1_000, valueLimit);
  const actions = [make({ infospace, search: undefined as unknown as NoteSearch, previewLimit, valueLimit })].flat();
  const callContext: CallContext = {
    caller: testCaller,
    callId: "call-1",
    signal: new AbortController().signal,
    untimed: (work) => work(),
    waitFor: () => {},
    heldSlots: new Set(),
    sees: () => true,
    listVisible: async () => [],
    afterEnd: () => {},
    invoke: () => Promise.reject(new Error("nothing to call")),
    ...context,
  };
  return {
    infospace,
    async run(entry: string, args: JsonObject): Promise<JsonObject> {
      const action = actions.find((each) => each.entry === entry) as Action;
      return (await action.run(args, callContext)) as JsonObject;
    },
  };
}

/** A dialogue that only listens. */
export function createTestDialogue() {
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

import fc from "fast-check";
import { canonicalJson, type Json, type JsonObject } from "../../core/json.ts";
import type { Derived, Input } from "./derived.ts";

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

export const anyObject: fc.Arbitrary<JsonObject> = objectOf(value);

/** Few values, so that keys repeat. */
export const anyRecord: fc.Arbitrary<JsonObject> = objectOf(
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

export async function* streamed(contents: readonly Json[], firstId?: number): AsyncGenerator<Input> {
  for (const [index, content] of contents.entries())
    yield firstId === undefined ? { content } : { id: firstId + index, content };
}

/** What came out, and what is said of it. */
export async function ended<Report extends JsonObject>({ items, report }: Derived<Report>) {
  const inputs: Input[] = [];
  for await (const each of items) inputs.push(each);
  return { inputs, contents: inputs.map(({ content }) => content), report: report() };
}

/** Endless, and says how many of it were read. */
export function endless(make: (index: number) => Json): { inputs: AsyncIterable<Input>; read(): number } {
  let read = 0;
  async function* inputs(): AsyncGenerator<Input> {
    for (;;) yield { content: make(read++) };
  }
  return { inputs: inputs(), read: () => read };
}

/** For comparing: what matchers overlook, such as a field called `__proto__`, counts here. */
export function texts(contents: readonly Json[]): readonly string[] {
  return contents.map((content) => canonicalJson(content));
}

import type { Json } from "../../core/json.ts";
import { isList } from "../content.ts";
import { readable } from "./coerce.ts";
import type { Derived, Inputs } from "./derived.ts";

export type Spread = {
  readonly input: number;
  readonly dropped: 0;
  /** Items that are lists, and have their items in their place. */
  readonly lists: number;
};

/** The items of items that are lists, one level down; others as they are. */
export function spread(inputs: Inputs): Derived<Spread> {
  let input = 0;
  let lists = 0;

  async function* items() {
    for await (const each of inputs) {
      input++;
      if (!isList(each.content)) {
        yield each;
        continue;
      }
      lists++;
      for (const content of each.content) yield { content };
    }
  }

  return { items: items(), report: () => ({ input, dropped: 0, lists }) };
}

/** One value made of many. */
export interface Gathered<Value extends Json> {
  readonly value: Value;
  readonly input: number;
  /** Items that there was no room for. */
  readonly leftOut: number;
}

/** All of them as one text. Ends before the item that would make it longer than `limit` characters. */
export async function joinedText(inputs: Inputs, separator: string, limit: number): Promise<Gathered<string>> {
  const { value, ...rest } = await gathered(inputs, readable, (text) => text.length + separator.length, limit);
  return { value: value.join(separator), ...rest };
}

/** All of them as one list. Ends before the item that would make its JSON longer than `limit` characters. */
export function listed(inputs: Inputs, limit: number): Promise<Gathered<readonly Json[]>> {
  return gathered(
    inputs,
    (content) => content,
    (content) => JSON.stringify(content).length + 1,
    limit,
  );
}

async function gathered<T extends Json>(
  inputs: Inputs,
  taken: (content: Json) => T,
  sizeOf: (each: T) => number,
  limit: number,
): Promise<Gathered<readonly T[]>> {
  const value: T[] = [];
  let input = 0;
  let leftOut = 0;
  let size = 0;
  for await (const { content } of inputs) {
    input++;
    if (leftOut === 0) {
      const each = taken(content);
      size += sizeOf(each);
      if (size <= limit) {
        value.push(each);
        continue;
      }
    }
    leftOut++;
  }
  return { value, input, leftOut };
}

import { z } from "zod";
import type { CallContext } from "../../core/action.ts";
import type { Json } from "../../core/json.ts";
import type { Infospace } from "../infospace.ts";
import type { Input } from "../operations/derived.ts";

/** What an operation goes over: a collection by its handle, or values as they are (a `$from` is values by then). */
export const targetShape = z.union([z.string(), z.array(z.unknown())]).describe("A handle or a list.");

/** The second of two. */
export const otherShape = z.union([z.string(), z.array(z.unknown())]);

export type Target = z.output<typeof targetShape>;

export interface Source {
  /** How many there are, where that was known before. */
  readonly count: number;
  /** False: it is a collection that was not filled to the end. */
  readonly complete: boolean;
  readonly inputs: AsyncIterable<Input>;
}

/** A single note is a list of one. */
export async function sourceOf(infospace: Infospace, target: Target, { caller, signal }: CallContext): Promise<Source> {
  if (typeof target !== "string") {
    return { count: target.length, complete: true, inputs: given(target as readonly Json[]) };
  }
  const resource = await infospace.resource(target, caller);
  if (!("count" in resource)) return { count: 1, complete: true, inputs: one(infospace, target, caller) };
  const { count, complete } = resource;
  return { count, complete, inputs: infospace.items(resource, { signal }) };
}

async function* given(values: readonly Json[]): AsyncGenerator<Input> {
  for (const content of values) yield { content };
}

async function* one(infospace: Infospace, target: string, caller: CallContext["caller"]): AsyncGenerator<Input> {
  const { id, content } = await infospace.note(target, caller);
  yield { id, content };
}

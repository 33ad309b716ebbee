import { isRecord, type JsonObject } from "../core/json.ts";
import { actionName } from "../core/names.ts";
import type { ResourceKind } from "./handle.ts";
import type { LargePart } from "./large-part.ts";
import { pathText } from "./path.ts";
import { INFOSPACE } from "./resource.ts";

/** What is known of something kept when a model is told what it can do with it. */
export interface Next {
  readonly handle: string;
  readonly kind: ResourceKind;
  readonly format?: "text" | "json" | "file";
  /** The path of a part of it, for an example. */
  readonly part?: string | undefined;
  /** What makes it long. */
  readonly large?: LargePart | undefined;
}

/** One sentence or two in at most `limit` characters. Names no action that the model does not see. */
export function nextStep(
  { handle, kind, format, part, large }: Next,
  sees: (name: string) => boolean,
  limit: number,
): string {
  const offered = (...entries: string[]) => entries.map((entry) => actionName(INFOSPACE, entry)).filter(sees);
  const from = (path?: string) => JSON.stringify({ $from: handle, ...(path === undefined ? {} : { path }) });
  const whole = `Give ${from()}${part === undefined ? "" : ` or ${from(part)}`} as an argument of any action.`;
  const narrow = kind === "collection" ? either(offered("filter-structured", "project", "head")) : "";
  const [load] = format === "file" ? [] : offered("load");
  const sentences = [
    whole,
    narrow === "" ? "" : `Narrow it with ${narrow}.`,
    large?.isMany === true ? takenApart(handle, large.path, offered("split")) : "",
    load === undefined ? "" : `Read it with ${load}.`,
  ];
  let text = "";
  for (const sentence of sentences) {
    const more = text === "" ? sentence : `${text} ${sentence}`;
    if (sentence !== "" && more.length <= limit) text = more;
  }
  return text;
}

/** The call that makes a collection of the part that makes it long. */
function takenApart(handle: string, path: string, [split]: readonly string[]): string {
  const call = JSON.stringify({ target: handle, ...(path === "" ? {} : { path }) });
  return split === undefined ? "" : `Make a collection of it with ${split} ${call}.`;
}

/** A path that leads somewhere in the first item, as short as it can be told. */
export function partOfFirst(shape: JsonObject): string | undefined {
  const keys = isRecord(shape.keys) ? Object.keys(shape.keys) : [];
  const plain = keys.find((key) => /^[A-Za-z_][\w-]{0,40}$/.test(key));
  return plain === undefined ? "[0]" : pathText([0, plain]);
}

function either(names: readonly string[]): string {
  return names.length < 2 ? (names[0] ?? "") : `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`;
}

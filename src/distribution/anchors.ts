import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import { isRecord, type Json } from "../core/json.ts";
import type { AnchorStore } from "./anchor-store.ts";
import { braced, mayHoldTokens, replaceTokens, tokensIn, wholeToken } from "./anchor-token.ts";

/** Which tokens were filled, and which are none of the caller's and stay as they are. Each once, as it is written. */
export interface Filled {
  readonly filled: readonly string[];
  readonly unknown: readonly string[];
}

/** Puts anchored values in place of their tokens. A token is good for the tenant, session and actor it was made for. */
export interface Anchors {
  /** In what a model says. Rejects with `too_large` when it would grow beyond bounds, and when the store cannot be read. */
  render(caller: Caller, text: string): Promise<Filled & { readonly text: string }>;
  /**
   * In the arguments of a call: a text that is one token becomes the value itself, a token within a text its text.
   * Arguments that hold no token are answered as they are and nothing is read. Rejects as `render` does.
   */
  fill(caller: Caller, args: unknown): Promise<Filled & { readonly args: unknown }>;
}

/** Whoever repeats a token in one text could make a large text of it. */
const GROWTH_LIMIT = 8 * 1024 * 1024;

const ARGUMENT_NODES = 100_000;
const ARGUMENT_DEPTH = 256;

export function createAnchors(store: Pick<AnchorStore, "read">): Anchors {
  async function values(caller: Caller, texts: readonly string[]) {
    const tokens = [...new Set(texts.flatMap(tokensIn))];
    const known = tokens.length === 0 ? new Map<string, string>() : await store.read(anchorOwner(caller), tokens);
    return {
      ...growing(known),
      filled: tokens.filter((token) => known.has(token)).map(braced),
      unknown: tokens.filter((token) => !known.has(token)).map(braced),
    };
  }

  return {
    async render(caller, text) {
      const { asText, filled, unknown } = await values(caller, [text]);
      return { text: filled.length === 0 ? text : replaceTokens(text, asText), filled, unknown };
    },
    async fill(caller, args) {
      const { asText, asValue, filled, unknown } = await values(caller, textsWithTokens(args));
      if (filled.length === 0) return { args, filled, unknown };
      const filledText = (text: string): Json => {
        const value = asValue(wholeToken(text));
        return value === undefined ? replaceTokens(text, asText) : value;
      };
      return { args: refilled(args, filledText), filled, unknown };
    },
  };
}

/** Whose tokens they are. */
export function anchorOwner({ tenant, session, actor }: Caller): string {
  return JSON.stringify([tenant ?? null, session, actor]);
}

function growing(known: ReadonlyMap<string, string>) {
  let grown = 0;
  const jsonOf = (token: string | undefined): string | undefined => {
    const json = token === undefined ? undefined : known.get(token);
    grown += json?.length ?? 0;
    if (grown <= GROWTH_LIMIT) return json;
    throw new QmError("too_large", `filling the tokens would add more than ${GROWTH_LIMIT} characters`, {
      hint: "Repeat fewer tokens, or hand on the record in another way.",
    });
  };
  return {
    asValue(token: string | undefined): Json | undefined {
      const json = jsonOf(token);
      return json === undefined ? undefined : (JSON.parse(json) as Json);
    },
    asText(token: string): string | undefined {
      const json = jsonOf(token);
      if (json === undefined) return undefined;
      const value = JSON.parse(json) as Json;
      return typeof value === "string" ? value : json;
    },
  };
}

/** None for what is no JSON, or more than arguments are: whoever checks arguments refuses that. */
function textsWithTokens(args: unknown): readonly string[] {
  const texts: string[] = [];
  const open = [{ value: args, depth: 0 }];
  try {
    for (let nodes = 1, next = open.pop(); next !== undefined; nodes++, next = open.pop()) {
      const { value, depth } = next;
      if (nodes > ARGUMENT_NODES || depth > ARGUMENT_DEPTH) return [];
      if (typeof value === "string" && mayHoldTokens(value)) texts.push(value);
      if (typeof value !== "object" || value === null) continue;
      for (const part of Object.values(value)) open.push({ value: part, depth: depth + 1 });
    }
  } catch {
    return [];
  }
  return texts;
}

function refilled(value: unknown, textOf: (text: string) => Json): unknown {
  if (typeof value === "string") return mayHoldTokens(value) ? textOf(value) : value;
  if (Array.isArray(value)) return value.map((item) => refilled(item, textOf));
  if (!isRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, refilled(part, textOf)]));
}

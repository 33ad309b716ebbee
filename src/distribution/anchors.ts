import type { Caller } from "../core/caller.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { isRecord, type Json } from "../core/json.ts";
import type { Runtime } from "../core/runtime.ts";
import {
  canHoldTokens,
  findTokens,
  measurePartialToken,
  parseWholeToken,
  replaceTokens,
  wrapToken,
} from "./anchor-token.ts";

/** Where the values of tokens are kept until a model has spoken. */
export interface AnchorStore {
  /** Keeps values, as JSON, under their tokens: all of them, or none and `false` where a token of them is taken. */
  put(owner: string, values: ReadonlyMap<string, string>): Promise<boolean>;
  /** The values of those tokens that the owner has. */
  read(owner: string, tokens: readonly string[]): Promise<ReadonlyMap<string, string>>;
  /** Forgets what was kept before then. */
  prune(before: Date): Promise<void>;
}

/** Which tokens were filled, and which are none of the caller's and stay as they are. Each once, as it is written. */
interface FilledTokens {
  readonly filled: readonly string[];
  readonly unknown: readonly string[];
}

/** Puts anchored values in place of their tokens. A token is good for the tenant, session and actor it was made for. */
export interface Anchors {
  /** In what a model says. Rejects with `too_large` when it would grow beyond bounds, and when the store cannot be read. */
  render(caller: Caller, text: string): Promise<FilledTokens & { readonly text: string }>;
  /**
   * In the arguments of a call: a text that is one token becomes the value itself, a token within a text its text.
   * Arguments that hold no token are answered as they are and nothing is read. Rejects as `render` does.
   */
  fill(caller: Caller, args: unknown): Promise<FilledTokens & { readonly args: unknown }>;
}

/** Whoever repeats a token in one text could make a large text of it. */
const GROWTH_LIMIT = 8 * 1024 * 1024;

const ARGUMENT_NODES = 100_000;
const ARGUMENT_DEPTH = 256;

export function createAnchors(store: Pick<AnchorStore, "read">): Anchors {
  async function values(caller: Caller, texts: readonly string[]) {
    const tokens = [...new Set(texts.flatMap(findTokens))];
    const known = tokens.length === 0 ? new Map<string, string>() : await store.read(anchorOwner(caller), tokens);
    return {
      ...createGrowthGuard(known),
      filled: tokens.filter((token) => known.has(token)).map(wrapToken),
      unknown: tokens.filter((token) => !known.has(token)).map(wrapToken),
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
      const fillText = (text: string): Json => {
        const value = asValue(parseWholeToken(text));
        return value === undefined ? replaceTokens(text, asText) : value;
      };
      return { args: fillTexts(args, fillText), filled, unknown };
    },
  };
}

/** Whose tokens they are. */
export function anchorOwner({ tenant, session, actor }: Caller): string {
  return JSON.stringify([tenant ?? null, session, actor]);
}

function createGrowthGuard(known: ReadonlyMap<string, string>) {
  let grown = 0;
  const readJson = (token: string | undefined): string | undefined => {
    const json = token === undefined ? undefined : known.get(token);
    grown += json?.length ?? 0;
    if (grown <= GROWTH_LIMIT) return json;
    throw new QmError("too_large", `filling the tokens would add more than ${GROWTH_LIMIT} characters`, {
      hint: "Repeat fewer tokens, or hand on the record in another way.",
    });
  };
  return {
    asValue(token: string | undefined): Json | undefined {
      const json = readJson(token);
      return json === undefined ? undefined : (JSON.parse(json) as Json);
    },
    asText(token: string): string | undefined {
      const json = readJson(token);
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
      if (typeof value === "string" && canHoldTokens(value)) texts.push(value);
      if (typeof value !== "object" || value === null) continue;
      for (const part of Object.values(value)) open.push({ value: part, depth: depth + 1 });
    }
  } catch {
    return [];
  }
  return texts;
}

function fillTexts(value: unknown, textOf: (text: string) => Json): unknown {
  if (typeof value === "string") return canHoldTokens(value) ? textOf(value) : value;
  if (Array.isArray(value)) return value.map((item) => fillTexts(item, textOf));
  if (!isRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, fillTexts(part, textOf)]));
}

/** Fills tokens in a text that comes in pieces, wherever it is cut. */
export interface AnchorStream {
  /** What can be shown now: a token that has only begun is held back. Rejects when the store cannot be read. */
  push(chunk: string): Promise<string>;
  /** What is left. */
  end(): Promise<string>;
  /** The tokens so far that are none of the caller's. */
  unknown(): readonly string[];
}

export function createAnchorStream(anchors: Pick<Anchors, "render">, caller: Caller): AnchorStream {
  let held = "";
  const unknown = new Set<string>();

  const renderText = async (text: string): Promise<string> => {
    const rendered = await anchors.render(caller, text);
    for (const token of rendered.unknown) unknown.add(token);
    return rendered.text;
  };

  return {
    push(chunk) {
      const text = held + chunk;
      const ready = text.length - measurePartialToken(text);
      held = text.slice(ready);
      return renderText(text.slice(0, ready));
    },
    end() {
      const text = held;
      held = "";
      return renderText(text);
    },
    unknown: () => [...unknown],
  };
}

const DAY_MS = 86_400_000;

/** How long a token can be filled. */
const ANCHORS_KEPT_MS = 30 * DAY_MS;

/** Forgets old anchors once a day, whenever it is called. Returns at once and never throws. */
export function createAnchorPruner(
  store: Pick<AnchorStore, "prune">,
  now: Runtime["now"],
  onProblem: (problem: string) => void,
): () => void {
  let last = Number.NEGATIVE_INFINITY;
  return () => {
    const at = now().getTime();
    if (at - last < DAY_MS) return;
    last = at;
    void Promise.resolve()
      .then(() => store.prune(new Date(at - ANCHORS_KEPT_MS)))
      .catch((thrown: unknown) => onProblem(`old anchored values could not be forgotten: ${getErrorMessage(thrown)}`));
  };
}

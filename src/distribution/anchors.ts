import type { Caller } from "../core/caller.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { isRecord, type Json } from "../core/json.ts";
import {
  canHoldTokens,
  findTokens,
  measurePartialToken,
  parseWholeToken,
  replaceTokens,
  wrapToken,
} from "./anchor-token.ts";

export interface AnchorStore {
  /** Stores values, as JSON, by token. Returns `false` and stores nothing if one of the tokens exists. */
  put(owner: string, values: ReadonlyMap<string, string>): Promise<boolean>;
  read(owner: string, tokens: readonly string[]): Promise<ReadonlyMap<string, string>>;
  prune(before: Date): Promise<void>;
}

/** The replaced tokens, and those that do not belong to the caller and stay in the text. With braces, each once. */
type FilledTokens = { readonly filled: readonly string[]; readonly unknown: readonly string[] };

/** Replaces tokens by their values. A token is valid for the tenant, session and actor it was created for. */
export interface Anchors {
  /** Fills the output of a model. Rejects with `too_large` if the text would grow too much, and if the store fails. */
  render(caller: Caller, text: string): Promise<FilledTokens & { readonly text: string }>;
  /** Fills arguments: a text that is one token becomes its value. Does not read the store without tokens. */
  fill(caller: Caller, args: unknown): Promise<FilledTokens & { readonly args: unknown }>;
}

/** A text that repeats a token could become very large. */
const GROWTH_LIMIT = 8 * 1024 * 1024;
const ARGUMENT_NODES = 100_000;
const ARGUMENT_DEPTH = 256;

export function createAnchors(store: Pick<AnchorStore, "read">): Anchors {
  async function readValues(caller: Caller, texts: readonly string[]) {
    const tokens = [...new Set(texts.flatMap(findTokens))];
    const known = tokens.length === 0 ? new Map<string, string>() : await store.read(anchorOwner(caller), tokens);
    const filled = tokens.filter((token) => known.has(token)).map(wrapToken);
    const unknown = tokens.filter((token) => !known.has(token)).map(wrapToken);
    return { ...createGrowthGuard(known), filled, unknown };
  }

  return {
    async render(caller, text) {
      const { asText, filled, unknown } = await readValues(caller, [text]);
      return { text: filled.length === 0 ? text : replaceTokens(text, asText), filled, unknown };
    },
    async fill(caller, args) {
      const { asText, asValue, filled, unknown } = await readValues(caller, collectTextsWithTokens(args));
      if (filled.length === 0) return { args, filled, unknown };
      const fillText = (text: string): Json => {
        const value = asValue(parseWholeToken(text));
        return value === undefined ? replaceTokens(text, asText) : value;
      };
      return { args: fillTexts(args, fillText), filled, unknown };
    },
  };
}

/** Makes the tokens in a value of one actor valid for another one too, which is given them. */
export async function shareAnchors(
  store: Pick<AnchorStore, "read" | "put">,
  { from, to }: { readonly from: Caller; readonly to: Caller },
  value: unknown,
): Promise<void> {
  const tokens = [...new Set(collectTextsWithTokens(value).flatMap(findTokens))];
  if (tokens.length === 0) return;
  const known = await store.read(anchorOwner(from), tokens);
  // One by one: a token that the other actor has already is not stored again.
  for (const entry of known) await store.put(anchorOwner(to), new Map([entry]));
}

export const anchorOwner = ({ tenant, session, actor }: Caller): string =>
  JSON.stringify([tenant ?? null, session, actor]);

function createGrowthGuard(known: ReadonlyMap<string, string>) {
  let grown = 0;
  const readJson = (token: string | undefined): string | undefined => {
    const json = token === undefined ? undefined : known.get(token);
    grown += json?.length ?? 0;
    if (grown <= GROWTH_LIMIT) return json;
    throw new QmError("too_large", `filling the tokens would add more than ${GROWTH_LIMIT} characters`, {
      hint: "Repeat fewer tokens, or pass the record in another way.",
    });
  };
  return {
    asValue(token: string | undefined): Json | undefined {
      const json = readJson(token);
      return json === undefined ? undefined : (JSON.parse(json) as Json);
    },
    asText(token: string): string | undefined {
      const json = readJson(token);
      const value = json === undefined ? undefined : (JSON.parse(json) as Json);
      return typeof value === "string" ? value : json;
    },
  };
}

/** Returns none for arguments that are too large or not JSON: the validation refuses them. */
function collectTextsWithTokens(args: unknown): readonly string[] {
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

function fillTexts(value: unknown, fillText: (text: string) => Json): unknown {
  if (typeof value === "string") return canHoldTokens(value) ? fillText(value) : value;
  if (Array.isArray(value)) return value.map((item) => fillTexts(item, fillText));
  if (!isRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, fillTexts(part, fillText)]));
}

export interface AnchorStream {
  /** Returns the text so far, without an incomplete token at its end. Rejects if the store fails. */
  push(chunk: string): Promise<string>;
  end(): Promise<string>;
  unknown(): readonly string[];
}

export function createAnchorStream(anchors: Pick<Anchors, "render">, caller: Caller): AnchorStream {
  let pending = "";
  const unknown = new Set<string>();

  const renderText = async (text: string): Promise<string> => {
    const rendered = await anchors.render(caller, text);
    for (const token of rendered.unknown) unknown.add(token);
    return rendered.text;
  };

  return {
    push(chunk) {
      const text = pending + chunk;
      const ready = text.length - measurePartialToken(text);
      pending = text.slice(ready);
      return renderText(text.slice(0, ready));
    },
    end() {
      const text = pending;
      pending = "";
      return renderText(text);
    },
    unknown: () => [...unknown],
  };
}

const DAY_MS = 86_400_000;
const RETENTION_MS = 30 * DAY_MS;

/** Deletes old anchors in the background, at most once a day. Never throws. */
export function createAnchorPruner(
  store: Pick<AnchorStore, "prune">,
  now: () => Date,
  onProblem: (text: string) => void,
) {
  let last = Number.NEGATIVE_INFINITY;
  return () => {
    const at = now().getTime();
    if (at - last < DAY_MS) return;
    last = at;
    void Promise.resolve()
      .then(() => store.prune(new Date(at - RETENTION_MS)))
      .catch((thrown: unknown) => onProblem(`old anchored values could not be deleted: ${getErrorMessage(thrown)}`));
  };
}

import type { Action } from "../../core/action.ts";
import { clip } from "../../core/json.ts";
import { type ActionName, actionName } from "../../core/names.ts";
import type { ResourceKind } from "../handle.ts";

/** What a note or a collection is found by. */
export interface Document {
  readonly id: number;
  /** Of what it is made of. */
  readonly hash: string;
  readonly name?: string | undefined;
  readonly labels: readonly string[];
  readonly text: string;
  /** Whether the text is all of it. */
  readonly whole: boolean;
}

const NAME_LIMIT = 100;

/** That a text was asked for which is not in memory any more. */
export class TextGone extends Error {
  override readonly name = "TextGone";
}

/**
 * A part of a note or collection as the index of actions takes it: an action that nobody can call. Its text is there
 * while somebody analyses or embeds it and no longer, because what was analysed is as large again.
 */
export class Passage implements Action {
  readonly name: ActionName;
  readonly tags: readonly string[];
  readonly aliases: readonly string[];
  readonly id: number;
  /** Which of its document's passages it is, from 0. */
  readonly at: number;
  #text: string | undefined;

  constructor(kind: ResourceKind, { id, name, labels }: Document, at: number, text: string) {
    this.name = passageName(kind, name, id, at);
    this.tags = labels;
    this.aliases = name === undefined || at > 0 ? [] : [clip(name, NAME_LIMIT)];
    this.id = id;
    this.at = at;
    this.#text = text;
  }

  get hasText(): boolean {
    return this.#text !== undefined;
  }

  remember(text: string): void {
    this.#text = text;
  }

  forget(): void {
    this.#text = undefined;
  }

  get description(): string {
    if (this.#text === undefined) throw new TextGone();
    return this.#text;
  }

  get category() {
    return "note";
  }

  get entry(): string {
    return this.name;
  }

  get inputSchema() {
    return NOTHING;
  }

  get effect() {
    return "read" as const;
  }

  get examples() {
    return NONE;
  }

  get scope() {
    return "generalist" as const;
  }

  get routing() {
    return "routed" as const;
  }

  get peerExposed(): boolean {
    return false;
  }

  get idempotent(): boolean {
    return true;
  }

  run(): undefined {
    return undefined;
  }
}

const NOTHING = Object.freeze({});
const NONE = Object.freeze([]);

/**
 * The name in words, then what tells passages apart in signs that are no words: with numbers in it, a note would be found
 * by its id, and the same text in two notes would be two texts.
 */
function passageName(kind: ResourceKind, name: string | undefined, id: number, at: number): ActionName {
  const words = clip((name ?? "").normalize("NFC"), NAME_LIMIT).match(/[\p{L}\p{N}\p{M}]+/gu) ?? [];
  return actionName(kind, `${words.length === 0 ? kind : words.join("-")}_${signs(id)}_${signs(at)}`);
}

const SIGNS = ".:/@+~-";

function signs(number: number): string {
  return number.toString(SIGNS.length).replace(/\d/g, (digit) => SIGNS[Number(digit)] ?? "");
}

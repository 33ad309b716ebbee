import { canonicalJson, clip, getOwn, isRecord, type Json } from "../../core/json.ts";
import { visible } from "../../core/visible.ts";
import { PINNED_FIELDS } from "./definition-hash.ts";
import type { OfferedTool } from "./offer.ts";
import { wordDiff } from "./word-diff.ts";

/** One place in which two definitions differ. Absent: there is nothing at that place. */
export interface DefinitionChange {
  /** A JSON pointer. */
  readonly path: string;
  readonly before?: Json;
  readonly after?: Json;
}

const CHANGES_SHOWN = 100;
const VALUE_LENGTH = 2_000;
/** What is the same is shown so far around what is not. */
const CONTEXT = 60;

/** Where two definitions differ, as far as definitions are pinned. Without `before` everything is added. */
export function definitionDiff(before: OfferedTool | undefined, after: OfferedTool): readonly DefinitionChange[] {
  return PINNED_FIELDS.flatMap((field) =>
    differences(`/${field}`, before === undefined ? undefined : getOwn(before, field), getOwn(after, field)),
  );
}

/** The same for a person at a terminal: one line a place, nothing hidden, and not more than can be read. */
export function diffLines(before: OfferedTool | undefined, after: OfferedTool): readonly string[] {
  const changes = definitionDiff(before, after);
  const lines = changes.slice(0, CHANGES_SHOWN).flatMap(linesOf);
  const left = changes.length - CHANGES_SHOWN;
  return left > 0 ? [...lines, `and ${left} more differences`] : lines;
}

function differences(path: string, before: Json | undefined, after: Json | undefined): readonly DefinitionChange[] {
  if (before === after) return [];
  if (isParted(before) && isParted(after) && Array.isArray(before) === Array.isArray(after)) {
    const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...keys].flatMap((key) =>
      differences(`${path}/${escaped(key)}`, ownPart(before, key), ownPart(after, key)),
    );
  }
  if (before !== undefined && after !== undefined && canonicalJson(before) === canonicalJson(after)) return [];
  return [{ path, ...(before === undefined ? {} : { before }), ...(after === undefined ? {} : { after }) }];
}

/** Objects, and lists of such; a list of plain values is one value. */
function isParted(value: Json | undefined): value is { readonly [key: string]: Json } {
  return Array.isArray(value) ? value.some((part) => typeof part === "object" && part !== null) : isRecord(value);
}

function ownPart(value: { readonly [key: string]: Json }, key: string): Json | undefined {
  return getOwn(value, key);
}

function escaped(key: string): string {
  return key.replaceAll("~", "~0").replaceAll("/", "~1");
}

function linesOf({ path, before, after }: DefinitionChange): readonly string[] {
  const place = shown(path);
  if (before === undefined) return [`+ ${place}: ${shown(textOf(after))}`];
  if (after === undefined) return [`- ${place}: ${shown(textOf(before))}`];
  if (typeof before === "string" && typeof after === "string") return [`~ ${place}: ${wordsOf(before, after)}`];
  return [`~ ${place}: ${shown(textOf(before))} \u2192 ${shown(textOf(after))}`];
}

/** Both texts in one: what was removed as `[-\u2026-]`, what was added as `{+\u2026+}`. */
function wordsOf(before: string, after: string): string {
  const stretches = wordDiff(before, after);
  return stretches
    .map(({ kind, text }, at) => {
      if (kind === "removed") return `[-${shown(text)}-]`;
      if (kind === "added") return `{+${shown(text)}+}`;
      return around(visible(text), at > 0, at < stretches.length - 1);
    })
    .join("");
}

function around(text: string, hasBefore: boolean, hasAfter: boolean): string {
  const head = hasBefore ? CONTEXT : 0;
  const tail = hasAfter ? CONTEXT : 0;
  if (text.length <= head + tail + 1) return text;
  return `${text.slice(0, head)}\u2026${tail === 0 ? "" : text.slice(-tail)}`;
}

function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : canonicalJson(value);
}

/** Cut where nothing is lost unsaid. */
function shown(text: string): string {
  if (text.length <= VALUE_LENGTH) return visible(text);
  return `${visible(clip(text, VALUE_LENGTH))} (${text.length} characters)`;
}

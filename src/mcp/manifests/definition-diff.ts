import { toVisibleLine } from "../../core/display-text.ts";
import { canonicalJson, clip, getOwn, isRecord, type Json, omitUndefined } from "../../core/json.ts";
import { diffWords } from "../../core/text-diff.ts";
import { type OfferedTool, PINNED_FIELDS } from "./offer.ts";

/** A place where two definitions differ. An absent side has no value there. */
export type DefinitionChange = { readonly path: string; readonly before?: Json; readonly after?: Json };
const MAX_CHANGES = 100;
const MAX_VALUE_LENGTH = 2_000;
/** Characters of unchanged text that are shown around a change. */
const CONTEXT = 60;

/** The differences in the pinned fields. Without `before` everything is added. */
export function diffDefinitions(before: OfferedTool | undefined, after: OfferedTool): readonly DefinitionChange[] {
  return PINNED_FIELDS.flatMap((field) =>
    findDifferences(`/${field}`, before === undefined ? undefined : getOwn(before, field), getOwn(after, field)),
  );
}

/** The differences for a terminal, one line per place. Control characters are made visible. */
export function formatDefinitionDiff(before: OfferedTool | undefined, after: OfferedTool): readonly string[] {
  const changes = diffDefinitions(before, after);
  const lines = changes.slice(0, MAX_CHANGES).map(formatChange);
  const left = changes.length - MAX_CHANGES;
  return left > 0 ? [...lines, `and ${left} more differences`] : lines;
}

function findDifferences(path: string, before: Json | undefined, after: Json | undefined): readonly DefinitionChange[] {
  if (before === after) return [];
  if (hasParts(before) && hasParts(after) && Array.isArray(before) === Array.isArray(after)) {
    const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...keys].flatMap((key) => {
      const pointer = `${path}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
      return findDifferences(pointer, getOwn(before, key), getOwn(after, key));
    });
  }
  if (before !== undefined && after !== undefined && canonicalJson(before) === canonicalJson(after)) return [];
  return [{ path, ...omitUndefined({ before, after }) }];
}

/** Objects and lists of objects. A list of plain values counts as one value. */
function hasParts(value: Json | undefined): value is { readonly [key: string]: Json } {
  return Array.isArray(value) ? value.some((part) => typeof part === "object" && part !== null) : isRecord(value);
}

function formatChange({ path, before, after }: DefinitionChange): string {
  const place = truncateVisible(path);
  if (before === undefined) return `+ ${place}: ${truncateVisible(toText(after))}`;
  if (after === undefined) return `- ${place}: ${truncateVisible(toText(before))}`;
  if (typeof before === "string" && typeof after === "string") return `~ ${place}: ${formatWordDiff(before, after)}`;
  return `~ ${place}: ${truncateVisible(toText(before))} \u2192 ${truncateVisible(toText(after))}`;
}

/** Both texts in one: removed words as `[-\u2026-]`, added words as `{+\u2026+}`. */
function formatWordDiff(before: string, after: string): string {
  const spans = diffWords(before, after);
  return spans
    .map(({ kind, text }, at) => {
      if (kind === "removed") return `[-${truncateVisible(text)}-]`;
      if (kind === "added") return `{+${truncateVisible(text)}+}`;
      return trimContext(toVisibleLine(text), at > 0, at < spans.length - 1);
    })
    .join("");
}

function trimContext(text: string, hasBefore: boolean, hasAfter: boolean): string {
  const head = hasBefore ? CONTEXT : 0;
  const tail = hasAfter ? CONTEXT : 0;
  if (text.length <= head + tail + 1) return text;
  return `${text.slice(0, head)}\u2026${tail === 0 ? "" : text.slice(-tail)}`;
}

const toText = (value: Json | undefined): string => (typeof value === "string" ? value : canonicalJson(value));

function truncateVisible(text: string): string {
  if (text.length <= MAX_VALUE_LENGTH) return toVisibleLine(text);
  return `${toVisibleLine(clip(text, MAX_VALUE_LENGTH))} (${text.length} characters)`;
}

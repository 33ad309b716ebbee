import type { DocumentChunk } from "./rag-store.ts";

/** Characters of a chunk: what the search takes as one passage. */
const CHUNK_LENGTH = 1_000;
const HEADING = /^(#{1,6})[ \t]+(\S.*)$/;
const FENCE = /^[ \t]{0,3}(`{3,}|~{3,})/;
const HEADING_LIMIT = 200;

type Block = Readonly<{ from: number; to: number; heading: string; isHeading: boolean }>;
type Range = Readonly<{ from: number; to: number }>;

/**
 * Splits a document at its headings, then packs paragraphs into chunks. A long paragraph is split at lines or words. A
 * heading without text of its own is in the chunk of what follows.
 */
export function* splitDocument(content: string, isMarkdown: boolean): Generator<DocumentChunk> {
  const countLine = createLineCounter(content);
  const toChunk = ({ from, to }: Range, heading: string): DocumentChunk => ({
    heading,
    text: content.slice(from, to),
    lines: [countLine(from), countLine(to - 1)],
    offset: [from, to],
  });
  let open: (Range & { readonly heading: string; readonly hasBody: boolean }) | undefined;
  for (const { from, to, heading, isHeading } of findBlocks(content, isMarkdown)) {
    if (open?.hasBody && (isHeading || to - open.from > CHUNK_LENGTH)) {
      yield toChunk(open, open.heading);
      open = undefined;
    }
    const start = open?.from ?? from;
    if (to - start <= CHUNK_LENGTH) {
      open = { from: start, to, heading, hasBody: open?.hasBody === true || !isHeading };
      continue;
    }
    for (const part of splitLong(content, { from: start, to })) yield toChunk(part, heading);
    open = undefined;
  }
  if (open !== undefined) yield toChunk(open, open.heading);
}

/** The first heading of the highest level, or undefined. */
export function findTitle(content: string): string | undefined {
  return /^#[ \t]+(\S.*)$/m.exec(content.slice(0, 4_000))?.[1]?.trim().slice(0, HEADING_LIMIT);
}

/** Headings and paragraphs. A fenced block of code is one paragraph, even with empty lines and `#` in it. */
function* findBlocks(content: string, isMarkdown: boolean): Generator<Block> {
  const path: { level: number; text: string }[] = [];
  let heading = "";
  let start = -1;
  let end = -1;
  let fence: string | undefined;
  for (let from = 0, to = 0; from < content.length; from = to + (content.startsWith("\r\n", to) ? 2 : 1)) {
    to = findLineEnd(content, from);
    const line = content.slice(from, to);
    const mark = isMarkdown ? FENCE.exec(line)?.[1] : undefined;
    if (mark !== undefined && fence === undefined) fence = mark;
    else if (mark?.startsWith(fence ?? "") && line.trim() === mark) fence = undefined;
    const isInFence = fence !== undefined || mark !== undefined;
    const signs = isMarkdown && !isInFence ? HEADING.exec(line) : null;
    const isBlank = !isInFence && line.trim() === "";
    if ((isBlank || signs !== null) && start >= 0) {
      yield { from: start, to: end, heading, isHeading: false };
      start = -1;
    }
    if (signs !== null) {
      const [, { length: level } = "", text = ""] = signs;
      while ((path.at(-1)?.level ?? 0) >= level) path.pop();
      path.push({ level, text: text.replace(/[ \t]#+[ \t]*$/, "").trim() });
      const texts = path.map((each) => each.text);
      heading = texts.join(" > ").slice(0, HEADING_LIMIT);
      yield { from, to, heading, isHeading: true };
    } else if (!isBlank) {
      if (start < 0) start = from;
      end = to;
    }
  }
  if (start >= 0) yield { from: start, to: end, heading, isHeading: false };
}

const [LINE_FEED, RETURN] = [10, 13];

function findLineEnd(content: string, from: number): number {
  for (let at = from; at < content.length; at++) {
    const code = content.charCodeAt(at);
    if (code === LINE_FEED || code === RETURN) return at;
  }
  return content.length;
}

function* splitLong(content: string, { from, to }: Range): Generator<Range> {
  for (let start = from; start < to; ) {
    const end = to - start <= CHUNK_LENGTH ? to : findEnd(content, start);
    if (content.slice(start, end).trim() !== "") yield { from: start, to: end };
    start = end;
  }
}

/** Ends a chunk after a line, a sentence or a word in its second half, or within a word that is longer. */
function findEnd(content: string, start: number): number {
  const end = start + CHUNK_LENGTH;
  const half = start + CHUNK_LENGTH / 2;
  // Only the second half is searched: to the start of a long line it would take quadratic time.
  const window = content.slice(half, end);
  for (const border of ["\n", ". ", " "]) {
    const at = window.lastIndexOf(border);
    if (at >= 0) return half + at + border.length;
  }
  const isInCharacter = /[\uDC00-\uDFFF]/.test(content[end] ?? "");
  return isInCharacter ? end - 1 : end;
}

/** Returns the line of a position, counted from 1. Positions must ascend. */
function createLineCounter(content: string): (position: number) => number {
  let line = 1;
  let at = 0;
  return (position) => {
    for (; at < position; at++) {
      const code = content.charCodeAt(at);
      if (code === LINE_FEED || (code === RETURN && content.charCodeAt(at + 1) !== LINE_FEED)) line++;
    }
    return line;
  };
}

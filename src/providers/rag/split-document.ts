import type { DocumentChunk } from "./rag-store.ts";

/** Characters of a chunk: what the search takes as one passage. */
const CHUNK_LENGTH = 1_000;
const HEADING = /^(#{1,6})[ \t]+(\S.*)$/;
const FENCE = /^[ \t]{0,3}(`{3,}|~{3,})/;
const HEADING_LIMIT = 200;
const LINE_ENDS = /\r?\n|\r/g;

type Block = Readonly<{ from: number; to: number; heading: string; isHeading: boolean }>;
type Line = Readonly<{ from: number; to: number }>;

/** Splits a document at its headings, then packs paragraphs into chunks. A long paragraph is split at lines or words. */
export function splitDocument(content: string, isMarkdown: boolean): readonly DocumentChunk[] {
  const lines = findLines(content);
  const chunks: Line[] = [];
  const headings: string[] = [];
  let open: { from: number; to: number; heading: string; hasBody: boolean } | undefined;
  const close = (): void => {
    // The chunks below a heading without text of its own have the heading.
    if (open?.hasBody) {
      chunks.push(open);
      headings.push(open.heading);
    }
    open = undefined;
  };
  for (const block of findBlocks(content, lines, isMarkdown)) {
    if (block.isHeading || open === undefined || block.to - open.from > CHUNK_LENGTH) close();
    if (block.to - block.from <= CHUNK_LENGTH) {
      const { from, heading, hasBody } = open ?? { from: block.from, heading: block.heading, hasBody: false };
      open = { from, to: block.to, heading, hasBody: hasBody || !block.isHeading };
      continue;
    }
    for (const part of splitLong(content, block)) {
      chunks.push(part);
      headings.push(block.heading);
    }
  }
  close();
  const counter = createLineCounter(lines);
  return chunks.map(({ from, to }, at) => ({
    heading: headings[at] ?? "",
    text: content.slice(from, to),
    lines: [counter(from), counter(Math.max(from, to - 1))],
    offset: [from, to],
  }));
}

/** The first heading of the highest level, or undefined. */
export function findTitle(content: string): string | undefined {
  return /^#[ \t]+(\S.*)$/m.exec(content.slice(0, 4_000))?.[1]?.trim().slice(0, HEADING_LIMIT);
}

function findLines(content: string): readonly Line[] {
  const lines: Line[] = [];
  let from = 0;
  for (const { index, 0: end } of content.matchAll(LINE_ENDS)) {
    lines.push({ from, to: index });
    from = index + end.length;
  }
  if (from < content.length) lines.push({ from, to: content.length });
  return lines;
}

/** Headings and paragraphs. A fenced block of code is one paragraph, whatever it contains. */
function* findBlocks(content: string, lines: readonly Line[], isMarkdown: boolean): Generator<Block> {
  const path: { level: number; text: string }[] = [];
  let heading = "";
  let paragraph: { from: number; to: number } | undefined;
  let fence: string | undefined;
  for (const { from, to } of lines) {
    const line = content.slice(from, to);
    const [, mark] = (isMarkdown && FENCE.exec(line)) || [];
    if (mark !== undefined && fence === undefined) fence = mark;
    else if (mark?.startsWith(fence ?? "") && line.trim() === mark) fence = undefined;
    const isInFence = fence !== undefined || mark !== undefined;
    const [, signs, text] = (isMarkdown && !isInFence && HEADING.exec(line)) || [];
    const isBlank = !isInFence && line.trim() === "";
    if ((isBlank || signs !== undefined) && paragraph !== undefined) {
      yield { ...paragraph, heading, isHeading: false };
      paragraph = undefined;
    }
    if (signs !== undefined && text !== undefined) {
      while ((path.at(-1)?.level ?? 0) >= signs.length) path.pop();
      path.push({ level: signs.length, text: text.replace(/[ \t]#+[ \t]*$/, "").trim() });
      heading = path
        .map((each) => each.text)
        .join(" > ")
        .slice(0, HEADING_LIMIT);
      yield { from, to, heading, isHeading: true };
    } else if (!isBlank) paragraph = { from: paragraph?.from ?? from, to };
  }
  if (paragraph !== undefined) yield { ...paragraph, heading, isHeading: false };
}

function* splitLong(content: string, { from, to }: Line): Generator<Line> {
  for (let start = from; start < to; ) {
    const end = to - start <= CHUNK_LENGTH ? to : findEnd(content, start);
    if (content.slice(start, end).trim() !== "") yield { from: start, to: end };
    start = end;
  }
}

/** After a line, a sentence or a word in the second half of the chunk, or within a word that is longer. */
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

/** Answers the line of ascending positions, from 1. */
function createLineCounter(lines: readonly Line[]): (position: number) => number {
  let at = 0;
  return (position) => {
    while (at > 0 && (lines[at]?.from ?? 0) > position) at--;
    while (at + 1 < lines.length && (lines[at + 1]?.from ?? 0) <= position) at++;
    return at + 1;
  };
}

import type { FileChange } from "../../mcp/clients/connect.ts";

/**
 * What a change takes away and puts in, as lines. Nothing around it is shown: there may be other servers' secrets.
 */
export function changeLines({ before = "", edits }: FileChange): readonly string[] {
  const text = before.replace(/^\uFEFF/, "");
  return edits.flatMap(({ offset, length, content }) => [
    `line ${text.slice(0, offset).split("\n").length}:`,
    ...signed("-", text.slice(offset, offset + length)),
    ...signed("+", content),
  ]);
}

function signed(sign: string, part: string): readonly string[] {
  const lines = part.split(/\r?\n/);
  while (lines.length > 0 && lines[0]?.trim() === "") lines.shift();
  while (lines.length > 0 && lines.at(-1)?.trim() === "") lines.pop();
  // What is put in begins in the middle of a line, so its first line has no indentation of its own.
  const indent = /^[ \t]*/.exec(lines.at(-1) ?? "")?.[0] ?? "";
  return lines.map((line) => `${sign} ${line.startsWith(indent) ? line.slice(indent.length) : line}`);
}

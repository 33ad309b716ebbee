import { stripVTControlCharacters } from "node:util";
import { clip } from "../../core/json.ts";
import { lineReader } from "../../core/line-reader.ts";
import { plain } from "../../core/plain-text.ts";

export interface StderrTail {
  push(chunk: Buffer): void;
  end(): void;
  /** The last lines, and what has come of one that has not ended. */
  text(): string;
}

export interface StderrTailOptions {
  /** So many characters are kept. */
  readonly limit?: number;
  /** Removes what nobody may read. */
  readonly hide?: (text: string) => string;
  /** Gets every line, as it may be shown. */
  readonly onLine?: ((line: string) => void) | undefined;
}

const LIMIT = 4096;
/** Lines are read whole up to here, so that nothing that must be hidden is cut in two and not known again. */
const LONGEST = 64 * 1024;

/** The end of what a server writes to its stderr: as a rule it says there why it fails. */
export function stderrTail({ limit = LIMIT, hide = (text) => text, onLine }: StderrTailOptions = {}): StderrTail {
  const lines: string[] = [];
  let size = 0;
  const shown = (line: Buffer): string => clip(plain(stripVTControlCharacters(hide(line.toString("utf8")))), limit);
  const keep = (line: string): void => {
    lines.push(line);
    size += line.length + 1;
    while (size > limit && lines.length > 1) size -= (lines.shift()?.length ?? 0) + 1;
    onLine?.(line);
  };
  const reader = lineReader({
    limit: LONGEST,
    onLine: (line) => keep(shown(line)),
    onDropped: ({ bytes }) => keep(`(a line of ${bytes} bytes)`),
  });

  return {
    push: reader.push,
    end: reader.end,
    text: () => [...lines, shown(reader.pending())].join("\n").trim().slice(-limit),
  };
}

import { yieldToEventLoop } from "../../core/async.ts";
import { clip } from "../../core/json.ts";
import type { LinearPattern } from "../../core/linear-pattern.ts";
import { WORK_LIMIT, WorkExceeded } from "../../core/work.ts";
import { lineBlocks } from "./lines.ts";
import type { OpenFile } from "./open-file.ts";

export interface Match {
  readonly path: string;
  /** Counted from 0, as a read counts. */
  readonly line: number;
  readonly text: string;
  readonly before?: readonly string[];
  readonly after?: readonly string[];
}

const TEXT_LIMIT = 400;

/** Collects matches over many files, up to `limit`, each with `context` lines around it. */
export class Search {
  readonly matches: Match[] = [];
  /** There is a match more than the limit. */
  isTruncated = false;
  cutLines = 0;
  /** Lines on which the pattern reached its work limit. */
  skippedLines = 0;
  readonly #regex: LinearPattern;
  #budget = { left: WORK_LIMIT };
  readonly #context: number;
  readonly #limit: number;

  constructor(regex: LinearPattern, { context, limit }: { context: number; limit: number }) {
    this.#regex = regex;
    this.#context = context;
    this.#limit = limit;
  }

  async file(path: string, file: OpenFile, signal: AbortSignal): Promise<void> {
    const before: string[] = [];
    let waiting: string[][] = [];
    let number = 0;
    for await (const { lines, cut } of lineBlocks(file, path, signal)) {
      this.cutLines += cut;
      for (const [index, line] of lines.entries()) {
        if (waiting.length > 0) {
          for (const after of waiting) after.push(clip(line, TEXT_LIMIT));
          waiting = waiting.filter((after) => after.length < this.#context);
        }
        if (this.#budget.left < WORK_LIMIT / 2) await this.#rest(signal);
        if (!this.isTruncated && this.#matches(line)) {
          const after = this.#add(path, number + index, line, before);
          if (after !== undefined && this.#context > 0) waiting.push(after);
        }
        if (this.isTruncated && waiting.length === 0) return;
        if (this.#context > 0) before.push(clip(line, TEXT_LIMIT));
        if (before.length > this.#context) before.shift();
      }
      number += lines.length;
    }
  }

  /** Lets other work have its turn. */
  async #rest(signal: AbortSignal): Promise<void> {
    await yieldToEventLoop();
    signal.throwIfAborted();
    this.#budget = { left: WORK_LIMIT };
  }

  #matches(line: string): boolean {
    try {
      return this.#regex.test(line, this.#budget);
    } catch (thrown) {
      if (!(thrown instanceof WorkExceeded)) throw thrown;
      this.skippedLines++;
      return false;
    }
  }

  /** The list to fill with the lines after the match, or undefined when there is no room for it. */
  #add(path: string, line: number, text: string, before: readonly string[]): string[] | undefined {
    if (this.matches.length === this.#limit) {
      this.isTruncated = true;
      return undefined;
    }
    const after: string[] = [];
    const around = this.#context > 0 ? { before: [...before], after } : {};
    this.matches.push({ path, line, text: this.#window(text), ...around });
    return after;
  }

  /** The line, or of a long one the first part that matches by itself. */
  #window(line: string): string {
    if (line.length <= TEXT_LIMIT) return line;
    try {
      for (let at = 0; at < line.length; at += TEXT_LIMIT / 2) {
        if (!this.#regex.test(line.slice(at, at + TEXT_LIMIT), this.#budget)) continue;
        if (at === 0) break;
        return clip(`…${line.slice(at).replace(/^[\uDC00-\uDFFF]/, "")}`, TEXT_LIMIT);
      }
    } catch (thrown) {
      if (!(thrown instanceof WorkExceeded)) throw thrown;
    }
    return clip(line, TEXT_LIMIT);
  }
}

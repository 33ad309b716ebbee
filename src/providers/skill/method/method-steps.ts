import { clip } from "../../../core/json.ts";
import type { FieldProblem } from "../skill-inputs.ts";

export interface MethodStep {
  readonly title: string;
  readonly text: string;
  /** Names and globs. Absent: those of the method. */
  readonly tools?: readonly string[];
  /** Requests to the model in this step. Absent: only the method's budget counts. */
  readonly budget?: number;
  /** The line of the body, counted from 0. */
  readonly line: number;
}

const LIST_ITEM = /^ {0,3}(\d{1,3})[.)]\s+(\S.*)$/;
const STEP_HEADING = /^#{1,6}\s+step\s+(\d{1,3})\b(.*)$/i;
const STEP_LABEL = /^\**step\s+(\d{1,3})\b\**:(.*)$/i;
const HEADING = /^(#{1,6})\s/;
const LOWEST_LEVEL = 6;
const FENCE = /^\s*(?:```|~~~)/;
const TOOLS_LINE = /^\s*(?:[-*]\s+)?\**tools:?\**:?\s+(\S.*)$/i;
const BUDGET_LINE = /^\s*(?:[-*]\s+)?\**budget:?\**:?\s+(\d{1,4})\b/i;
const TITLE_LIMIT = 80;

/** Separated by commas or spaces. `none` is an empty list. */
export function splitToolList(text: string): readonly string[] {
  const names = text.split(/[\s,]+/).map((each) => each.replace(/^`|`$/g, ""));
  return names.filter((each) => each !== "" && each.toLowerCase() !== "none");
}

type Start = { readonly number: number; readonly line: number; readonly rest: string };

/** Finds the steps of a protocol: headings `## Step 1`, lines `STEP 1:`, or else the first numbered list. */
export function parseSteps(body: string): {
  readonly steps: readonly MethodStep[];
  readonly problems: readonly FieldProblem[];
} {
  const lines = body.split("\n");
  const isCode = markCode(lines);
  const labelled = findStarts(lines, isCode, (line) => STEP_HEADING.exec(line) ?? STEP_LABEL.exec(line));
  const starts = labelled.length > 0 ? labelled : takeFirstList(findListItems(lines, isCode), lines, isCode);
  if (starts.length === 0) {
    const message = "there are no steps; number them as a list (1. 2. 3.) or with headings (## Step 1)";
    return { steps: [], problems: [{ rule: "steps", level: "error", bodyLine: 0, message }] };
  }
  const problems = starts.flatMap(({ number, line }, at): readonly FieldProblem[] => {
    if (number === at + 1) return [];
    const message = `step ${number} is in place ${at + 1}; it runs as step ${at + 1}`;
    return [{ rule: "steps", level: "warning", bodyLine: line, message }];
  });
  const getLevel = (line: number) => (isCode[line] ? undefined : HEADING.exec(lines[line] ?? "")?.[1]?.length);
  const steps = starts.map(({ line, rest }, at): MethodStep => {
    const next = starts[at + 1]?.line ?? lines.length;
    const level = getLevel(line) ?? LOWEST_LEVEL;
    // A heading that is not below the step's own is about something else.
    const others = Array.from({ length: next - line - 1 }, (_, offset) => line + 1 + offset);
    const end = others.find((each) => (getLevel(each) ?? LOWEST_LEVEL + 1) <= level) ?? next;
    return readStep(rest, lines.slice(line + 1, end), line);
  });
  return { steps, problems };
}

function markCode(lines: readonly string[]): readonly boolean[] {
  let isInside = false;
  return lines.map((line) => {
    if (!FENCE.test(line)) return isInside;
    isInside = !isInside;
    return true;
  });
}

function findStarts(
  lines: readonly string[],
  isCode: readonly boolean[],
  match: (line: string) => RegExpExecArray | null,
): readonly Start[] {
  return lines.flatMap((text, line) => {
    const found = isCode[line] === true ? null : match(text);
    return found === null ? [] : [{ number: Number(found[1]), line, rest: found[2] ?? "" }];
  });
}

const findListItems = (lines: readonly string[], isCode: readonly boolean[]) =>
  findStarts(lines, isCode, (line) => LIST_ITEM.exec(line));

/** After a heading, the list goes on only with its next number. */
function takeFirstList(
  items: readonly Start[],
  lines: readonly string[],
  isCode: readonly boolean[],
): readonly Start[] {
  const taken: Start[] = [];
  for (const item of items) {
    const last = taken.at(-1);
    const hasHeading =
      last !== undefined &&
      lines.slice(last.line, item.line).some((line, at) => HEADING.test(line) && isCode[last.line + at] !== true);
    if (hasHeading && item.number !== taken.length + 1) break;
    taken.push(item);
  }
  return taken;
}

function readStep(rest: string, more: readonly string[], line: number): MethodStep {
  const first = rest.replace(/^[\s:.–—-]+/, "").trim();
  const toolLines = more.flatMap((each) => TOOLS_LINE.exec(each)?.[1] ?? []);
  const budget = more.flatMap((each) => BUDGET_LINE.exec(each)?.[1] ?? [])[0];
  const text = [first, ...more].join("\n").trim();
  const bold = /^\*\*(.{1,200}?)\*\*/.exec(first)?.[1];
  const title = clip((bold ?? (first || text.split("\n", 1)[0] || "")).replace(/[.:]$/, ""), TITLE_LIMIT);
  return {
    title,
    text,
    ...(toolLines.length === 0 ? {} : { tools: toolLines.flatMap(splitToolList) }),
    ...(budget === undefined ? {} : { budget: Math.max(1, Number(budget)) }),
    line,
  };
}

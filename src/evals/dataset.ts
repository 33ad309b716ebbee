import { readdir, readFile, stat } from "node:fs/promises";
import { basename, extname, join } from "node:path";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { clip } from "../core/json.ts";
import { caseSchema, type EvalCase } from "./eval-case.ts";

/** Cases, and what was found beside them that is none. */
export interface Dataset {
  readonly cases: readonly DatasetCase[];
  readonly problems: readonly DatasetProblem[];
}

export interface DatasetCase {
  readonly case: EvalCase;
  readonly file: string;
  /** Where a file has a case in every line. */
  readonly line?: number;
}

export interface DatasetProblem {
  readonly file: string;
  readonly line?: number;
  readonly message: string;
}

const BYTE_LIMIT = 64 * 1024 * 1024;
const MESSAGES = 5;

/**
 * Reads a folder of `.json` files, a case in each, and of `.jsonl` files, a case in each line; or one such file. What
 * cannot be read is a problem beside the cases, never in their place. Throws `not_found` where there is nothing at all,
 * and `invalid_arguments` where there is neither a case nor anything that should be one.
 */
export async function readDataset(path: string): Promise<Dataset> {
  const cases: DatasetCase[] = [];
  const problems: DatasetProblem[] = [];
  const known = new Map<string, string>();
  for (const file of await listDatasetFiles(path)) {
    for (const found of await readCases(file)) {
      if ("message" in found) problems.push(found);
      else if (known.has(found.case.id)) problems.push(toDuplicateProblem(found, known.get(found.case.id) ?? ""));
      else {
        known.set(found.case.id, formatCaseLocation(found));
        cases.push(found);
      }
    }
  }
  if (cases.length === 0 && problems.length === 0) throw createEmptyDatasetError(path);
  return { cases, problems };
}

/** A file, and the line where it has many, as people are shown it. */
export function formatCaseLocation({ file, line }: Pick<DatasetProblem, "file" | "line">): string {
  return line === undefined ? file : `${file}:${line}`;
}

async function listDatasetFiles(path: string): Promise<readonly string[]> {
  try {
    if (!(await stat(path)).isDirectory()) return [path];
    const names = (await readdir(path)).filter((name) => [".json", ".jsonl"].includes(extname(name)));
    return names.sort().map((name) => join(path, name));
  } catch (thrown) {
    throw new QmError("not_found", `the dataset ${path} cannot be read: ${getErrorMessage(thrown)}`, {
      cause: thrown,
      hint: "Give a folder of .json files, or a .jsonl file. `qm eval record` makes them.",
    });
  }
}

async function readCases(file: string): Promise<readonly (DatasetCase | DatasetProblem)[]> {
  let text: string;
  try {
    const { size } = await stat(file);
    if (size > BYTE_LIMIT) return [{ file, message: `is larger than ${BYTE_LIMIT} bytes` }];
    text = (await readFile(file, "utf8")).replace(/^\uFEFF/, "");
  } catch (thrown) {
    return [{ file, message: `cannot be read: ${getErrorMessage(thrown)}` }];
  }
  if (extname(file) !== ".jsonl") return [readCase(text, { file })];
  return text
    .split("\n")
    .flatMap((line, index) => (line.trim() === "" ? [] : [readCase(line, { file, line: index + 1 })]));
}

function readCase(
  text: string,
  place: { readonly file: string; readonly line?: number },
): DatasetCase | DatasetProblem {
  let given: unknown;
  try {
    given = JSON.parse(text);
  } catch (thrown) {
    return { ...place, message: `is not JSON: ${getErrorMessage(thrown)}` };
  }
  const read = caseSchema.safeParse(given);
  if (read.success) return { ...place, case: read.data as EvalCase };
  const wrong = read.error.issues
    .slice(0, MESSAGES)
    .map(({ path, message }) => `${path.join(".") || "it"}: ${message}`);
  return { ...place, message: clip(wrong.join("; "), 1000) };
}

function toDuplicateProblem(found: DatasetCase, first: string): DatasetProblem {
  const { file, line } = found;
  const message = `has the id ${JSON.stringify(found.case.id)}, which ${basename(first)} has already`;
  return line === undefined ? { file, message } : { file, line, message };
}

function createEmptyDatasetError(path: string): QmError {
  return new QmError("invalid_arguments", `the dataset ${path} holds no case`, {
    hint: "Make one of a turn that went as it should: `qm eval record <turn> --turn --to <folder>/<name>.json`.",
  });
}

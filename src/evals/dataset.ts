import { readdir, readFile, stat } from "node:fs/promises";
import { basename, extname, join } from "node:path";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { clip, omitUndefined } from "../core/json.ts";
import { caseSchema, type EvalCase } from "./eval-case.ts";

/** The cases, and the files or lines that are none. */
export type Dataset = Readonly<{ cases: readonly DatasetCase[]; problems: readonly DatasetProblem[] }>;
type DatasetLocation = Readonly<{ file: string; line?: number }>;
export type DatasetCase = DatasetLocation & Readonly<{ case: EvalCase }>;
export type DatasetProblem = DatasetLocation & Readonly<{ message: string }>;
const MAX_BYTES = 64 * 1024 * 1024;

/**
 * Reads a folder of `.json` files with one case each and `.jsonl` files with one case per line, or one such file. An
 * invalid case is reported as a problem. Throws `not_found` for a missing path and `invalid_arguments` for an empty one.
 */
export async function readDataset(path: string): Promise<Dataset> {
  const cases: DatasetCase[] = [];
  const problems: DatasetProblem[] = [];
  const known = new Map<string, string>();
  for (const file of await listDatasetFiles(path)) {
    for (const found of await readCases(file)) {
      if ("message" in found) {
        problems.push(found);
        continue;
      }
      const { file, line, case: evalCase } = found;
      const first = known.get(evalCase.id);
      known.set(evalCase.id, first ?? formatCaseLocation(found));
      const message = `has the id ${JSON.stringify(evalCase.id)}, which ${basename(first ?? "")} already has`;
      if (first === undefined) cases.push(found);
      else problems.push({ file, ...omitUndefined({ line }), message });
    }
  }
  if (cases.length > 0 || problems.length > 0) return { cases, problems };
  const hint = "Record a turn that went well: `qm eval record <turn> --turn --to <folder>/<name>.json`.";
  throw new QmError("invalid_arguments", `the dataset ${path} has no cases`, { hint });
}

/** For example `cases.jsonl:3`. */
export function formatCaseLocation({ file, line }: DatasetLocation): string {
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
      hint: "Give a folder of .json files, or a .jsonl file. `qm eval record` creates them.",
    });
  }
}

async function readCases(file: string): Promise<readonly (DatasetCase | DatasetProblem)[]> {
  let text: string;
  try {
    const { size } = await stat(file);
    if (size > MAX_BYTES) return [{ file, message: `is larger than ${MAX_BYTES} bytes` }];
    text = (await readFile(file, "utf8")).replace(/^\uFEFF/, "");
  } catch (thrown) {
    return [{ file, message: `cannot be read: ${getErrorMessage(thrown)}` }];
  }
  if (extname(file) !== ".jsonl") return [parseCase(text, { file })];
  const lines = text.split("\n");
  return lines.flatMap((line, index) => (line.trim() === "" ? [] : [parseCase(line, { file, line: index + 1 })]));
}

function parseCase(text: string, location: DatasetLocation): DatasetCase | DatasetProblem {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (thrown) {
    return { ...location, message: `is not JSON: ${getErrorMessage(thrown)}` };
  }
  const { success, data, error } = caseSchema.safeParse(value);
  if (success) return { ...location, case: data as EvalCase };
  const issues = error.issues.slice(0, 5).map(({ path, message }) => `${path.join(".") || "it"}: ${message}`);
  return { ...location, message: clip(issues.join("; "), 1000) };
}

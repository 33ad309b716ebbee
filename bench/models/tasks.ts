import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Action } from "../../src/index.ts";
import { createMinimalExample } from "../../src/invoke/argument-repair.ts";
import type { SimulatedTask } from "../../src/testing/exports.ts";
import { entriesOf } from "../search/corpus.ts";
import type { Data } from "../search/data.ts";
import { sample } from "../search/sample.ts";

export interface BenchTask extends SimulatedTask {
  /** Restores the files that the task starts from. */
  prepare?(): void;
}

/** The sets whose tasks come with the words that a language model searched for, without having seen the tools. */
const SETS = ["azuremcp", "mcpevals"];
const CHANGES =
  /(?:^|[_-])(?:create|update|delete|remove|set|add|insert|send|restart|deploy|drop|rename|upload|run)(?:$|[_-])/;

/** All tools of the sets as actions, and the tasks that exactly one of them solves. */
export function createCatalogTasks({ sets, agent }: Data): {
  readonly actions: readonly Action[];
  readonly tasks: readonly BenchTask[];
} {
  const chosen = sets.filter(({ name }) => SETS.includes(name));
  const entries = entriesOf(
    chosen.flatMap(({ name, tools }) => tools.map((tool) => ({ ...tool, id: `${name} ${tool.id}` }))),
  );
  const byId = new Map(
    entries.map(({ id, action }) => {
      const effect = CHANGES.test(action.name) ? "write" : "read";
      return [id, { ...action, effect, run: () => "done" } satisfies Action];
    }),
  );
  const searches = new Map(agent.map((task) => [`${task.set} ${task.id}`, task.searches]));
  const tasks = chosen.flatMap(({ name, queries }) =>
    queries.flatMap(({ id, query, relevant }): BenchTask[] => {
      const searched = searches.get(`${name} ${id}`);
      const action = relevant.length === 1 ? byId.get(`${name} ${relevant[0]}`) : undefined;
      const args = action && createMinimalExample(action);
      if (searched === undefined || action === undefined || args === undefined) return [];
      return [{ goal: query, action: action.name, args, searches: searched }];
    }),
  );
  return { actions: [...byId.values()], tasks: sample(tasks, tasks.length - 1) };
}

const PLACES = "notes drafts letters reports plans recipes minutes invoices".split(" ");
const TITLES = "summer winter budget travel garden music history science".split(" ");

interface FileOperation {
  readonly action: string;
  readonly goal: (path: string) => string;
  readonly searches: readonly string[];
  /** How other programs name it, and how a model misspells ours. */
  readonly knownNames: readonly string[];
  readonly args: (path: string) => BenchTask["args"];
}

const OPERATIONS: readonly FileOperation[] = [
  {
    action: "file__read",
    goal: (path) => `Tell me what ${path} says.`,
    searches: ["read a text file"],
    knownNames: ["file__read_file", "read_text_file", "open_file", "read_file", "cat"],
    args: (path) => ({ path }),
  },
  {
    action: "file__write",
    goal: (path) => `Put the line "Hello" into a new file ${path}.`,
    searches: ["create a text file with content"],
    knownNames: ["file.write", "write_to_file", "save_file", "fs__writeFile", "create_file"],
    args: (path) => ({ path, content: "Hello\n", create_parents: true }),
  },
  {
    action: "file__edit",
    goal: (path) => `In ${path}, correct "teh" to "the".`,
    searches: ["replace part of a file"],
    knownNames: ["str_replace", "file__edit_file", "replace_in_file", "apply_diff", "file__update"],
    args: (path) => ({ path, old_string: "teh", new_string: "the" }),
  },
];

/** Tasks for our own file actions, which models believe to know. */
export function createFileTasks(root: string, count: number): readonly BenchTask[] {
  return Array.from({ length: count }, (_, at): BenchTask => {
    const operation = OPERATIONS[at % OPERATIONS.length] as FileOperation;
    const { goal, args, knownNames, ...rest } = operation;
    const place = PLACES[at % PLACES.length];
    const path = `${place}/${TITLES[Math.floor(at / PLACES.length) % TITLES.length]}-${at}.txt`;
    const turn = at % knownNames.length;
    const { path: _path, ...others } = args(path);
    return {
      ...rest,
      goal: goal(path),
      args: args(path),
      guessedArgs: { file_path: path, ...others },
      knownNames: [...knownNames.slice(turn), ...knownNames.slice(0, turn)],
      prepare() {
        const file = join(root, path);
        mkdirSync(dirname(file), { recursive: true });
        writeFileSync(file, "This is teh text.\n");
      },
    };
  });
}

/** Two tasks of the catalog for each one with files, as far as there are any. */
export function mixTasks(
  catalog: readonly BenchTask[],
  files: readonly BenchTask[],
  count: number,
): readonly BenchTask[] {
  const many = Math.min(catalog.length, Math.round((count * 2) / 3));
  return [...catalog.slice(0, many), ...files.slice(0, count - many)];
}

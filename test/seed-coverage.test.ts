import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import { builtInCategories } from "../src/catalog/spelling.ts";

const root = join(import.meta.dirname, "..");
const text = z.string().min(1);
const statementShape = z.strictObject({
  id: z.string().regex(/^[a-z]+(?:-[a-z0-9]+)+$/),
  says: text,
  /** Titles of tests by file. */
  tests: z.record(text, z.union([text, z.array(text).min(1)])).optional(),
  /** The number of a decision that differs, with the reason in `why`. */
  decision: z.int().optional(),
  why: text.optional(),
  /** The category that is still missing. */
  open: text.optional(),
});
const systemShape = z.strictObject({
  system: text,
  prefix: text,
  groups: z.array(z.strictObject({ title: text, statements: z.array(statementShape).min(1) })),
});
type Statement = z.infer<typeof statementShape>;

const folder = join(import.meta.dirname, "seed-coverage");
const systems = readdirSync(folder)
  .sort()
  .map((file) => systemShape.parse(parse(readFileSync(join(folder, file), "utf8"))));
const decisions = readdirSync(join(root, "docs/decisions"));
const findDecision = (number: number) => decisions.find((file) => file.startsWith(String(number).padStart(4, "0")));
const listTests = ({ tests = {} }: Statement) =>
  Object.entries(tests).flatMap(([file, titles]) => [titles].flat().map((title) => ({ file, title })));

/** The categories of the united systems that are not built yet. Only statements about them may be open. */
const missingCategories: readonly string[] = [];

test("a missing category does not exist yet", () => {
  const providers = join(root, "src/providers");
  const source = readdirSync(providers, { recursive: true, encoding: "utf8" })
    .filter((file) => /(?<!\.test)\.ts$/.test(file))
    .map((file) => readFileSync(join(providers, file), "utf8"))
    .join();

  expect(missingCategories.filter((name) => builtInCategories.has(name) || source.includes(`"${name}"`))).toEqual([]);
});

const isUncovered = (statement: Statement): boolean =>
  listTests(statement).length === 0 && statement.decision === undefined;

describe.each(systems)("the statements of $system", ({ prefix, groups }) => {
  const statements = groups.flatMap((group) => group.statements);

  test("each have a test or a decision, or are open for a missing category", () => {
    const uncovered = statements.filter(({ open, ...each }) =>
      open === undefined ? isUncovered(each) : !missingCategories.includes(open),
    );

    expect(uncovered.map(({ id, open = "nothing covers it" }) => `${id}: ${open}`)).toEqual([]);
  });

  test("have ids of their own, and decisions with a reason", () => {
    const ids = statements.map(({ id }) => id);

    expect(ids.filter((id, at) => ids.indexOf(id) !== at || !id.startsWith(`${prefix}-`))).toEqual([]);
    expect(statements.filter(({ decision, why }) => (decision === undefined) !== (why === undefined))).toEqual([]);
  });

  test("name tests and decisions that exist", () => {
    const missing = statements.flatMap((each) => [
      ...listTests(each).flatMap(({ file, title }) => (hasTest(file, title) ? [] : [`${each.id}: ${file}: ${title}`])),
      ...(each.decision !== undefined && findDecision(each.decision) === undefined
        ? [`${each.id}: decision ${each.decision}`]
        : []),
    ]);

    expect(missing).toEqual([]);
  });
});

test("docs/seed-coverage.md has every statement (written by: vitest run test/seed-coverage -u)", async () => {
  await expect(renderPage()).toMatchFileSnapshot("../docs/seed-coverage.md");
});

const contents = new Map<string, string>();

/** Whether the file has the test, also as a row: "refuses %s" has the title "refuses a name" if a row begins with "a name". */
function hasTest(file: string, title: string): boolean {
  const path = join(root, file);
  if (!contents.has(file)) {
    const text = file.endsWith(".test.ts") && existsSync(path) ? readFileSync(path, "utf8") : "";
    contents.set(file, text.replace(/([([])\s+"/g, '$1"'));
  }
  const text = contents.get(file) ?? "";
  return [...text.matchAll(/(?: test\(|\ntest\(|\)\()("(?:[^"\\\n]|\\.)*"),/g)].some(([, quoted = ""]) => {
    const [before = "", after, more] = (JSON.parse(quoted) as string).split("%s");
    if (JSON.stringify(title) === quoted) return true;
    if (after === undefined || more !== undefined || !title.startsWith(before) || !title.endsWith(after)) return false;
    return text.includes(`[${JSON.stringify(title.slice(before.length, title.length - after.length))},`);
  });
}

const escapeCell = (cell: string): string => cell.replaceAll("|", "\\|");

function renderPage(): string {
  const parts = systems.flatMap(({ system, groups }) => [
    `## ${system}`,
    summarize(groups.flatMap((group) => group.statements)),
    ...groups.flatMap(({ title, statements }) => [
      `### ${title}`,
      ["| id | statement | covered by |", "|---|---|---|", ...statements.map(renderRow)].join("\n"),
    ]),
  ]);
  return `${[TITLE, INTRODUCTION, ...parts].join("\n\n")}\n`;
}

const TITLE = "# Coverage of the systems that this product unites";
const INTRODUCTION = `Each statement that the documentation of these systems makes, in our words, with the tests that show that it holds here, or
the decision that says why we differ. A statement about a built-in category that does not exist yet is marked **not yet**.
\`test/seed-coverage.test.ts\` writes this page. It fails if another statement has neither test nor decision, or if a test or
a decision does not exist.`;

function summarize(statements: readonly Statement[]): string {
  const count = (has: (statement: Statement) => boolean) => statements.filter(has).length;
  const open = missingCategories.flatMap((name) => {
    const amount = count((each) => each.open === name);
    return amount === 0 ? [] : [`\`${name}\` ${amount}`];
  });
  const covered = `${count((each) => listTests(each).length > 0)} have tests, ${count((each) => each.decision !== undefined)} a decision`;
  return `${statements.length} statements: ${covered}. Not yet: ${open.length === 0 ? "none" : open.join(", ")}.`;
}

function renderRow(statement: Statement): string {
  const { id, says, decision, why, open } = statement;
  const file = decision === undefined ? undefined : findDecision(decision);
  const covers = [
    ...(file === undefined ? [] : [`[${file.slice(0, 4)}](decisions/${file}): ${why}`]),
    ...listTests(statement).map(({ file, title }) => `\`${file}\`: ${title}`),
    ...(open === undefined ? [] : [`**not yet**: the category \`${open}\``]),
  ];
  return `| \`${id}\` | ${escapeCell(says)} | ${covers.map(escapeCell).join("<br>")} |`;
}

import type { Table } from "../table.ts";
import type { Cell, CellRuns, ModelName, Scheme, TaskRun } from "./cells.ts";
import { average, type Estimate, estimateByResampling, estimateMean, estimateShare } from "./statistics.ts";

/** What each cell measured, for the table and for `--json`. */
export interface CellFigures extends Cell {
  readonly count: number;
  readonly success: Estimate;
  readonly steps: Estimate;
  readonly tokens: Estimate;
  readonly wrongCalls: Estimate;
}

export function measureCell({ runs, ...cell }: CellRuns): CellFigures {
  return {
    ...cell,
    count: runs.length,
    success: estimateShare(runs.filter(({ isSolved }) => isSolved).length, runs.length),
    steps: estimateMean(runs.map(({ steps }) => steps)),
    tokens: estimateMean(runs.map(({ tokens }) => tokens)),
    wrongCalls: estimateMean(runs.map(({ wrongCalls }) => wrongCalls)),
  };
}

/** How much of a failure mode a measure makes up for. 1: with it, the model does as well as one without the failure. */
export interface Recovery {
  readonly model: ModelName;
  readonly measure: string;
  /** Of the tasks that the failure loses on the universal surface. */
  readonly success: Estimate | undefined;
  /** Of the wrong calls that the failure adds there. */
  readonly wrongCalls: Estimate | undefined;
}

const MEASURES: readonly (Pick<Cell, "scheme" | "tier"> & { readonly measure: string })[] = [
  { measure: "enum", scheme: "universal+enum", tier: "strong" },
  { measure: "promote", scheme: "universal+promote", tier: "strong" },
  { measure: "forced discovery", scheme: "universal", tier: "light" },
  { measure: "forced + enum", scheme: "universal+enum", tier: "light" },
  { measure: "forced + promote", scheme: "universal+promote", tier: "light" },
];

/** Compares the same tasks with and without each measure. The cells that are missing are left out. */
export function measureRecoveries(cells: readonly CellRuns[]): readonly Recovery[] {
  const find = (scheme: Scheme, model: ModelName, tier: Cell["tier"]) =>
    cells.find((cell) => cell.scheme === scheme && cell.model === model && cell.tier === tier)?.runs;
  const sound = find("universal", "strong", "strong");
  const models = [...new Set(cells.map(({ model }) => model))].filter((model) => model !== "strong");
  return models.flatMap((model) =>
    MEASURES.flatMap(({ measure, scheme, tier }) => {
      const [failing, helped] = [find("universal", model, "strong"), find(scheme, model, tier)];
      if (sound === undefined || failing === undefined || helped === undefined) return [];
      return [
        {
          model,
          measure,
          success: compare(sound, failing, helped, ({ isSolved }) => Number(isSolved)),
          wrongCalls: compare(sound, failing, helped, ({ wrongCalls }) => wrongCalls),
        },
      ];
    }),
  );
}

/** Undefined if the failure makes almost no difference: then there is nothing to make up for. */
function compare(
  sound: readonly TaskRun[],
  failing: readonly TaskRun[],
  helped: readonly TaskRun[],
  read: (run: TaskRun) => number,
): Estimate | undefined {
  const mean = (runs: readonly TaskRun[], indexes: readonly number[]) =>
    average(indexes.map((index) => read(runs[index] as TaskRun)));
  const all = [...sound.keys()];
  if (Math.abs(mean(sound, all) - mean(failing, all)) < SMALLEST_LOSS) return undefined;
  return estimateByResampling(sound.length, (indexes) => {
    const lost = mean(sound, indexes) - mean(failing, indexes);
    return lost === 0 ? Number.NaN : (mean(helped, indexes) - mean(failing, indexes)) / lost;
  });
}

const SMALLEST_LOSS = 0.03;

export function toCellTable(figures: readonly CellFigures[]): Table {
  return {
    title: "Simulated models, by scheme: what one task takes (95 % confidence)",
    head: ["scheme", "model", "tier", "success", "steps", "tokens", "wrong calls"],
    rows: figures.map(({ scheme, model, tier, success, steps, tokens, wrongCalls }) => [
      scheme,
      model,
      tier,
      formatEstimate(success, formatPercent),
      formatEstimate(steps, (value) => value.toFixed(2)),
      formatEstimate(tokens, formatCount),
      formatEstimate(wrongCalls, (value) => value.toFixed(2)),
    ]),
    notes: [
      "The models are simulated: they follow seeded rates, and say nothing about any real model.",
      "tokens: everything the model read in all requests of a task, counted with o200k.",
      "wrong calls: those that failed, and those of an action that does not solve the task.",
    ],
  };
}

export function toRecoveryTable(recoveries: readonly Recovery[]): Table {
  return {
    title: "How much of each failure on the universal surface is made up for (95 % confidence)",
    head: ["model", "with", "lost tasks", "added wrong calls"],
    rows: recoveries.map(({ model, measure, success, wrongCalls }) => [
      model,
      measure,
      success === undefined ? "–" : formatEstimate(success, formatPercent),
      wrongCalls === undefined ? "–" : formatEstimate(wrongCalls, formatPercent),
    ]),
    notes: [
      "100 %: as good as the strong model on this surface. Negative: worse than without. –: less than 0.03 was lost.",
      "forced discovery: tier light, whose prompt has the rule three times and whose first step must look actions up.",
    ],
  };
}

const formatEstimate = ({ value, low, high }: Estimate, format: (value: number) => string): string =>
  `${format(value)} (${format(low)}–${format(high)})`;
const formatPercent = (value: number): string => `${Math.round(value * 100)} %`;
const formatCount = (value: number): string => Math.round(value).toLocaleString("en");

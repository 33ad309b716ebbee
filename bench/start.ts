import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { builtCommand } from "./gateway/command.ts";
import { spreadOf } from "./gateway/figures.ts";
import { short } from "./table.ts";
import type { BenchResult } from "./targets.ts";

/** The time of `qm list` in an empty folder, compared to Node alone. */
export function benchStart({ quick }: { readonly quick: boolean }): BenchResult {
  const folder = mkdtempSync(join(tmpdir(), "qm-bench-start-"));
  const command = builtCommand();
  const run = (args: readonly string[]): number => {
    const begun = performance.now();
    const { status, stderr } = spawnSync(process.execPath, args, {
      cwd: folder,
      env: { PATH: process.env.PATH, HOME: folder },
      encoding: "utf8",
    });
    if (status !== 0) throw new Error(`node ${args.join(" ")} ended with ${status}: ${stderr}`);
    return performance.now() - begun;
  };
  try {
    // The first rounds fill the caches of the file system and of compiled code.
    const rounds = Array.from({ length: 3 + (quick ? 5 : 20) }, () => {
      const nodeMs = run(["-e", "1"]);
      const listMs = run([command.bin, "list"]);
      return { nodeMs, listMs, beyondMs: listMs - nodeMs };
    }).slice(3);
    const row = (name: string, figures: readonly number[]) => {
      const { median, min, max } = spreadOf(figures);
      return [name, `${short(median)} ms (${short(min)}–${short(max)})`];
    };
    const beyond = rounds.map(({ beyondMs }) => beyondMs);
    return {
      tables: [
        {
          title: "start: the command in an empty folder, by the clock",
          head: ["", "from start to end"],
          rows: [
            row(
              "node -e 1",
              rounds.map(({ nodeMs }) => nodeMs),
            ),
            row(
              "qm list",
              rounds.map(({ listMs }) => listMs),
            ),
            row("qm list beyond node -e 1", beyond),
          ],
        },
      ],
      targets: [
        { name: "qm list beyond node -e 1", measured: spreadOf(beyond).median, sign: "≤", limit: 180, unit: "ms" },
      ],
    };
  } finally {
    command.remove();
    rmSync(folder, { recursive: true, force: true });
  }
}

import { lstatSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { installPackedCommand, NotTriedError } from "../clients/packed-command.ts";
import { short } from "./table.ts";
import type { BenchResult } from "./targets.ts";

/** The size of the installed package with all its dependencies. Needs the registry of npm, and takes about a minute. */
export async function benchSize({ quick }: { readonly quick: boolean }): Promise<BenchResult> {
  const bytes = quick ? undefined : await measureInstalled();
  const target = { name: "installed size", sign: "<", limit: 75, unit: "MB" } as const;
  if (bytes === undefined) return { tables: [], targets: [{ ...target, measured: undefined }] };
  const rows = [...bytes].sort(([, a], [, b]) => b - a).map(([name, size]) => [name, `${short(size / MB)} MB`]);
  const total = [...bytes.values()].reduce((sum, size) => sum + size, 0);
  return {
    tables: [{ title: "size: the largest installed packages", head: ["", "bytes of files"], rows: rows.slice(0, 8) }],
    targets: [{ ...target, measured: total / MB }],
  };
}

const MB = 1_000_000;

/** The bytes of each installed package. Undefined: npm cannot install here. */
async function measureInstalled(): Promise<ReadonlyMap<string, number> | undefined> {
  const folder = mkdtempSync(join(tmpdir(), "qm-bench-size-"));
  try {
    await installPackedCommand(folder);
    const packages = join(folder, "node_modules");
    return new Map(readdirSync(packages).map((name) => [name, sizeOf(join(packages, name))]));
  } catch (thrown) {
    if (!(thrown instanceof NotTriedError)) throw thrown;
    console.error(`size: not measured, because ${thrown.message}`);
    return undefined;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function sizeOf(path: string): number {
  const found = lstatSync(path);
  if (!found.isDirectory()) return found.size;
  return readdirSync(path).reduce((sum, name) => sum + sizeOf(join(path, name)), 0);
}

import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** The command as it is published, compiled from the source as it is now. */
export interface BuiltCommand {
  /** `dist/cli/bin.js` of it. */
  readonly bin: string;
  remove(): void;
}

export function builtCommand(): BuiltCommand {
  const root = fileURLToPath(new URL("../..", import.meta.url));
  const cache = join(root, "node_modules", ".cache");
  mkdirSync(cache, { recursive: true });
  const folder = mkdtempSync(join(cache, "qm-bench-"));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  copyFileSync(join(root, "package.json"), join(folder, "package.json"));
  const compiler = join(root, "node_modules", "typescript", "bin", "tsc");
  const dist = join(folder, "dist");
  const { stdout } = spawnSync(
    process.execPath,
    [compiler, "-p", join(root, "tsconfig.build.json"), "--outDir", dist],
    {
      encoding: "utf8",
    },
  );
  const bin = join(dist, "cli", "bin.js");
  if (!existsSync(bin)) {
    remove();
    throw new Error(`tsc did not write the command: ${stdout}`);
  }
  return { bin, remove };
}

import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** The command in its published form, built from the current source. */
export interface BuiltCommand {
  /** The file that `bin` of the package names. */
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
  const tsx = join(root, "node_modules", "tsx", "dist", "cli.mjs");
  const args = [tsx, join(root, "scripts", "bundle-command.ts"), join(folder, "dist", "bin")];
  const { stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: "utf8" });
  const bin = join(folder, "dist", "bin", "qm.js");
  if (!existsSync(bin)) {
    remove();
    throw new Error(`the command could not be built: ${stderr}`);
  }
  return { bin, remove };
}

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

export type Library = typeof import("../src/index.ts");

/**
 * The library as it is published. tsx would give every function that is made on the way of a call its name back, a
 * price that no user pays and that the other libraries, which arrive compiled, would not pay here.
 */
export async function builtLibrary(): Promise<{ readonly library: Library; remove(): void }> {
  const root = fileURLToPath(new URL("..", import.meta.url));
  const cache = join(root, "node_modules", ".cache");
  mkdirSync(cache, { recursive: true });
  const folder = mkdtempSync(join(cache, "qm-bench-"));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  const compiler = join(root, "node_modules", "typescript", "bin", "tsc");
  const args = [compiler, "-p", join(root, "tsconfig.build.json"), "--outDir", folder, "--declaration", "false"];
  const { stdout } = spawnSync(process.execPath, args, { encoding: "utf8" });
  const entry = join(folder, "index.js");
  if (!existsSync(entry)) {
    remove();
    throw new Error(`tsc wrote no index.js: ${stdout}`);
  }
  return { library: (await import(pathToFileURL(entry).href)) as Library, remove };
}

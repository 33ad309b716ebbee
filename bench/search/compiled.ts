import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

export type Lexical = typeof import("../../src/search/lexical/index.ts") & typeof import("../../src/search/hit.ts");

/**
 * The search by words as it is published: see `builtLibrary` for why. It is not part of the public interface, so it is
 * taken from its own file.
 */
export async function compiledLexical(): Promise<{ readonly lexical: Lexical; remove(): void }> {
  const root = fileURLToPath(new URL("../..", import.meta.url));
  const cache = join(root, "node_modules", ".cache");
  mkdirSync(cache, { recursive: true });
  const folder = mkdtempSync(join(cache, "qm-bench-search-"));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  const compiler = join(root, "node_modules", "typescript", "bin", "tsc");
  const args = [compiler, "-p", join(root, "tsconfig.build.json"), "--outDir", folder, "--declaration", "false"];
  const { stdout } = spawnSync(process.execPath, args, { encoding: "utf8" });
  const files = ["search/lexical/index.js", "search/hit.js"].map((file) => join(folder, file));
  if (!files.every((file) => existsSync(file))) {
    remove();
    throw new Error(`tsc wrote no search: ${stdout}`);
  }
  const modules = await Promise.all(files.map((file) => import(pathToFileURL(file).href)));
  return { lexical: Object.assign({}, ...modules) as Lexical, remove };
}

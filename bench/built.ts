import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

export type Library = typeof import("../src/index.ts");

/** The library in its published form. */
export async function builtLibrary(): Promise<{ readonly library: Library; remove(): void }> {
  const { modules, remove } = await builtModules<[Library]>("index.js");
  return { library: modules[0], remove };
}

/**
 * Some files of the library in their published form. tsx adds a name to every function that a call creates. Users do not
 * pay that cost, and neither would the other libraries here, which are already compiled.
 */
export async function builtModules<Modules extends readonly unknown[]>(
  ...names: { readonly [Index in keyof Modules]: string }
): Promise<{ readonly modules: Modules; remove(): void }> {
  const root = fileURLToPath(new URL("..", import.meta.url));
  const cache = join(root, "node_modules", ".cache");
  mkdirSync(cache, { recursive: true });
  const folder = mkdtempSync(join(cache, "qm-bench-"));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  const args = ["--import", "tsx", join(root, "scripts/bundle-library.ts"), folder];
  const { stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: "utf8" });
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  const files = names.map((name) => join(folder, name));
  if (!files.every((file) => existsSync(file))) {
    remove();
    throw new Error(`the build did not write ${names.join(", ")}: ${stderr}`);
  }
  const modules = await Promise.all(files.map((file) => import(pathToFileURL(file).href)));
  return { modules: modules as unknown as Modules, remove };
}

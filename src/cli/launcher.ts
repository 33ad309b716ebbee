#!/usr/bin/env node
/**
 * The published command. It loads the bundled program from compiled code that an earlier start has stored, because compiling
 * takes a third of a short run. Before it has checked the version of Node, it needs nothing newer than Node 12, so that an old
 * Node can print the problem.
 */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import * as nodeModule from "node:module";
import { join } from "node:path";
import { Script } from "node:vm";
import type { runProcess } from "./process.ts";

/** As `engines` in package.json. */
const REQUIRED = [20, 19] as const;
/** The build replaces it by a hash of the program. */
declare const BUILD_ID: string;

const folder = import.meta.dirname;
/** The cache lies in the package: a user who can write there can change the program anyway. */
const cache = join(folder, "../../node_modules/.cache/compiled");
const requireNative = nodeModule.createRequire(import.meta.filename);

if (isSupported(process.versions.node)) {
  const { enableCompileCache } = nodeModule as { enableCompileCache?: (folder: string) => unknown };
  enableCompileCache?.(cache);
  const load = enableCompileCache === undefined ? createCachingLoader() : requireNative;
  const program = load("./process.cjs") as { readonly runProcess: typeof runProcess };
  // The program's own imports are calls of its loader, which cannot load every kind of file.
  void program.runProcess((url) => import(url));
} else {
  process.stderr.write(`Quartermaster needs Node ${REQUIRED.join(".")} or newer; this is v${process.versions.node}.\n`);
  process.exitCode = 1;
}

function isSupported(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major > REQUIRED[0] || (major === REQUIRED[0] && minor >= REQUIRED[1]);
}

/** A `require` for the files of the program. For Node before 22.8, which has no compile cache of its own. */
function createCachingLoader(): (id: string) => unknown {
  const store = join(cache, `${BUILD_ID}-${process.version}-${process.arch}`);
  const modules = new Map<string, { exports: unknown }>();
  const compiled = new Map<string, Script>();
  process.once("exit", () => storeCompiled(store, compiled));
  return load;

  function load(id: string): unknown {
    if (!id.startsWith("./")) return requireNative(id);
    const known = modules.get(id);
    if (known !== undefined) return known.exports;
    const module = { exports: {} };
    modules.set(id, module);
    const path = join(folder, id);
    // The build writes nothing but ASCII, which is read faster in this encoding.
    const wrapped = nodeModule.Module.wrap(readFileSync(path, "latin1"));
    const stored = join(store, `${id}.bin`);
    const cachedData = readIfPresent(stored);
    const script = new Script(wrapped, { filename: path, ...(cachedData && { cachedData }) });
    if (script.cachedDataRejected !== false) compiled.set(stored, script);
    script.runInThisContext()(module.exports, load, module, path, folder);
    return module.exports;
  }
}

function readIfPresent(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch {
    return undefined;
  }
}

/** Stores the functions that were compiled until now, too. Several processes may do so at once. */
function storeCompiled(store: string, compiled: ReadonlyMap<string, Script>): void {
  try {
    if (compiled.size > 0) mkdirSync(store, { recursive: true });
    for (const [path, script] of compiled) {
      const written = `${path}.${process.pid}`;
      writeFileSync(written, script.createCachedData());
      renameSync(written, path);
    }
  } catch {
    // The package is read-only: every start compiles.
  }
}

import { mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import type { TestProject } from "vitest/node";
import { bundle } from "../../scripts/bundle.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** The folder with the compiled programs. */
    compiledPrograms: string;
  }
}

const root = join(import.meta.dirname, "../..");

/** Programs that are bundled with their packages, as the command is: sources, relative to the root. */
function listBundled(): readonly string[] {
  const processes = readdirSync(join(root, "test"), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith("-process.ts"))
    .map((path) => `test/${path}`);
  return [...processes, "src/cli/bin.ts", "src/index.ts"];
}

/**
 * Programs that import their packages. An example and the SDK it shows must share one copy of each, and the conformance
 * programs need the schema validator of the MCP SDK, which the bundle leaves out.
 */
function listLinked(): readonly string[] {
  const examples = readdirSync(join(root, "examples"))
    .filter((name) => name.endsWith(".ts"))
    .map((name) => `examples/${name}`);
  return [...examples, "conformance/client.ts", "conformance/fixture-server.ts"];
}

/** A vitest global setup. Compiles the programs that tests start, once per run, so that no child has to. */
export async function setup(project: TestProject): Promise<() => void> {
  const cache = join(root, "node_modules/.cache");
  mkdirSync(cache, { recursive: true });
  // Every run has its own folder, so two runs do not disturb each other.
  const folder = realpathSync(mkdtempSync(join(cache, "qm-tests-")));
  const isPackage = (id: string) => !id.startsWith(".") && !isAbsolute(id);
  await bundle({ input: nameOutputs(listBundled()), folder: join(folder, "bundled") });
  await bundle({ input: nameOutputs(listLinked()), folder: join(folder, "linked"), external: isPackage });
  project.provide("compiledPrograms", folder);
  return () => rmSync(folder, { recursive: true, force: true });
}

function nameOutputs(sources: readonly string[]): Record<string, string> {
  return Object.fromEntries(sources.map((source) => [source.slice(0, -".ts".length), source]));
}

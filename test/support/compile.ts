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

/** Every program that a test may start: its source, relative to the root. */
function listPrograms(): readonly string[] {
  const processes = readdirSync(join(root, "test"), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith("-process.ts"))
    .map((path) => `test/${path}`);
  return [...processes, "src/cli/bin.ts", "src/index.ts", "conformance/client.ts", "conformance/fixture-server.ts"];
}

function listExamples(): readonly string[] {
  return readdirSync(join(root, "examples"))
    .filter((name) => name.endsWith(".ts"))
    .map((name) => `examples/${name}`);
}

/** A vitest global setup. Compiles the programs that tests start, once per run, so that no child has to. */
export async function setup(project: TestProject): Promise<() => void> {
  const cache = join(root, "node_modules/.cache");
  mkdirSync(cache, { recursive: true });
  // Every run has its own folder, so two runs do not disturb each other.
  const folder = realpathSync(mkdtempSync(join(cache, "qm-tests-")));
  await bundle({ input: nameOutputs(listPrograms()), folder: join(folder, "programs") });
  // An example and the SDK it shows must share one copy of each package.
  const isPackage = (id: string) => !id.startsWith(".") && !isAbsolute(id);
  await bundle({ input: nameOutputs(listExamples()), folder: join(folder, "examples"), external: isPackage });
  project.provide("compiledPrograms", folder);
  return () => rmSync(folder, { recursive: true, force: true });
}

function nameOutputs(sources: readonly string[]): Record<string, string> {
  return Object.fromEntries(sources.map((source) => [source.slice(0, -".ts".length), source]));
}

import { existsSync } from "node:fs";
import { join, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { inject } from "vitest";

const root = resolve(import.meta.dirname, "../..");

/** The compiled form of a program that a test starts with `node`. `./compile.ts` says which sources are programs. */
export function findCompiled(source: string | URL): string {
  const path = relative(root, source instanceof URL ? fileURLToPath(source) : resolve(root, source));
  const build = path.startsWith(`examples${sep}`) ? "examples" : "programs";
  const compiled = join(inject("compiledPrograms"), build, path.replace(/\.ts$/, ".js"));
  if (!existsSync(compiled))
    throw new TypeError(`${path} is not compiled for tests; add it to test/support/compile.ts`);
  return compiled;
}

import { existsSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { inject } from "vitest";

const root = resolve(import.meta.dirname, "../..");

/** The compiled form of a program that a test starts with `node`. `./compile.ts` says which sources are programs. */
export function findCompiled(source: string | URL): string {
  const path = relative(root, source instanceof URL ? fileURLToPath(source) : resolve(root, source));
  const compiled = ["bundled", "linked"]
    .map((build) => join(inject("compiledPrograms"), build, path.replace(/\.ts$/, ".js")))
    .find((file) => existsSync(file));
  if (compiled === undefined) {
    throw new TypeError(`${path} is not compiled for tests; add it to test/support/compile.ts`);
  }
  return compiled;
}

import { readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";

const src = resolve(import.meta.dirname, "..");

/** The files that importing a file loads. Skips types and `import()`. */
function listLoaded(file: string, loaded = new Set<string>()): ReadonlySet<string> {
  if (loaded.has(file)) return loaded;
  loaded.add(file);
  const imports = readFileSync(join(src, file), "utf8").matchAll(
    /^(?:import|export) (?!type )([^;]*?) from "(\.[^"]+)"/gms,
  );
  for (const [, names = "", target = ""] of imports) {
    const isTypesOnly = /^\{(?:\s*type [^,}]+,?)+\s*\}$/.test(names);
    if (!isTypesOnly) listLoaded(relative(src, join(src, dirname(file), target)), loaded);
  }
  return loaded;
}

test.each(["app/quartermaster.ts", "workspace/workspace.ts"])(
  "%s loads heavy parts only when they are used",
  (file) => {
    const heavy =
      /^(?:mcp|replay|evals|http|testing|a2a\/task-service|infospace\/(?:primitives|search)|search\/embedders|telemetry\/opentelemetry)\b/;

    expect([...listLoaded(file)].filter((each) => heavy.test(each))).toEqual([]);
    expect(listLoaded(file)).toContain("invoke/invoke.ts");
  },
);

test("no start loads the SDK for A2A", () => {
  const loading = [...listLoaded("cli/main.ts"), ...listLoaded("index.ts")].filter((file) =>
    /^import (?!type )[^;]* from "@a2a-js/m.test(readFileSync(join(src, file), "utf8")),
  );

  expect(loading).toEqual([]);
});

import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** The folder that the package is in. How far up it is differs between the source, the library and the command. */
export function packageFolder(from: string = import.meta.dirname): string {
  if (existsSync(join(from, "package.json"))) return from;
  const above = dirname(from);
  if (above === from) throw new TypeError(`${import.meta.dirname} is in no package`);
  return packageFolder(above);
}

/** What the package says of itself. */
export function packageFacts(): {
  readonly name: string;
  readonly version: string;
  readonly engines: { readonly node: string };
} {
  return JSON.parse(readFileSync(join(packageFolder(), "package.json"), "utf8"));
}

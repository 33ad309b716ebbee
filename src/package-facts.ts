import { readFileSync } from "node:fs";

/** What the package says of itself. One folder up, from the source as from the build. */
export function packageFacts(): { readonly name: string; readonly version: string; readonly engines: { readonly node: string } } {
  return JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
}

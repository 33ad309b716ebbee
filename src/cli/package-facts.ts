import { readFileSync } from "node:fs";

/** What the package says of itself. Two folders up, from the source as from the build. */
export function packageFacts(): { readonly version: string; readonly engines: { readonly node: string } } {
  return JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
}

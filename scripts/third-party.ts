import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { RolldownOutput } from "rolldown";

const modules = join(import.meta.dirname, "../node_modules");

/** Writes the licence texts that the bundled packages must be distributed with. Throws if one has none. */
export function writeLicences(path: string, outputs: readonly RolldownOutput[]): void {
  const files = outputs.flatMap(({ output }) => output);
  const bundled = files.flatMap((file) => (file.type === "chunk" ? Object.keys(file.modules) : []));
  const packages = new Set(
    bundled.map((module) => /^.*[\\/]node_modules[\\/](?:@[^\\/]+[\\/])?[^\\/]+/.exec(module)?.[0] ?? ""),
  );
  const notices = [...packages].filter((folder) => folder !== "").map(readNotice);
  writeFileSync(path, notices.sort().join(`\n${"-".repeat(80)}\n\n`));
}

/** Packages that are published without their licence. */
const MISSING: Readonly<Record<string, string>> = {
  // It is from the same repository.
  "@ai-sdk/provider-utils": readFileSync(join(modules, "@ai-sdk/provider/LICENSE"), "utf8").trim(),
  boolbase: `Copyright (c) 2014-2015, Felix Boehm <me@feedic.com>

Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted,
provided that the above copyright notice and this permission notice appear in all copies.

THE SOFTWARE IS PROVIDED "AS IS" AND THE AUTHOR DISCLAIMS ALL WARRANTIES WITH REGARD TO THIS SOFTWARE INCLUDING ALL IMPLIED
WARRANTIES OF MERCHANTABILITY AND FITNESS. IN NO EVENT SHALL THE AUTHOR BE LIABLE FOR ANY SPECIAL, DIRECT, INDIRECT, OR
CONSEQUENTIAL DAMAGES OR ANY DAMAGES WHATSOEVER RESULTING FROM LOSS OF USE, DATA OR PROFITS, WHETHER IN AN ACTION OF
CONTRACT, NEGLIGENCE OR OTHER TORTIOUS ACTION, ARISING OUT OF OR IN CONNECTION WITH THE USE OR PERFORMANCE OF THIS
SOFTWARE.`,
};

function readNotice(folder: string): string {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const files = readdirSync(folder).filter((file) => /^(?:licen[cs]e|notice|copying)\b/i.test(file));
  const texts = files.map((file) => readFileSync(join(folder, file), "utf8").trim());
  if (texts.length === 0) texts.push(MISSING[name] ?? "");
  if (texts.includes("")) throw new Error(`${folder} has no licence file to distribute`);
  return `${name} ${version} (${license})\n\n${texts.join("\n\n")}\n`;
}

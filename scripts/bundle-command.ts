/**
 * Makes the command out of the source, in the folder that is named or in dist/bin: a few files in place of the hundreds
 * that it and its libraries have, because reading them is most of what starting takes. What is imported later stays in
 * files of its own.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { bundle } from "./bundle.ts";

const root = join(import.meta.dirname, "..");
const folder = resolve(process.argv[2] ?? join(root, "dist/bin"));

const { output } = await bundle({ input: { qm: "src/cli/bin.ts" }, folder });

const bundled = output.flatMap((file) => (file.type === "chunk" ? Object.keys(file.modules) : []));
const packages = new Set(
  bundled.map((path) => /^.*[\\/]node_modules[\\/](?:@[^\\/]+[\\/])?[^\\/]+/.exec(path)?.[0] ?? ""),
);
const notices = [...packages].filter((path) => path !== "").map(noticeOf);
writeFileSync(join(folder, "THIRD-PARTY.txt"), notices.sort().join(`\n${"-".repeat(80)}\n\n`));

/** What a package wants to be handed on with its code. */
function noticeOf(path: string): string {
  const { name, version, license } = JSON.parse(readFileSync(join(path, "package.json"), "utf8"));
  const files = readdirSync(path).filter((file) => /^(?:licen[cs]e|notice|copying)\b/i.test(file));
  if (files.length === 0) throw new Error(`${path} has no licence that could be handed on`);
  const texts = files.map((file) => readFileSync(join(path, file), "utf8").trim());
  return `${name} ${version} (${license})\n\n${texts.join("\n\n")}\n`;
}

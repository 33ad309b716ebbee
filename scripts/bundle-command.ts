/**
 * Bundles the command into the given folder or dist/bin. A few files replace the hundreds of the command and its libraries,
 * because reading them takes most of the start time. Modules that are imported later stay in separate files.
 */
import { hash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { bundle } from "./bundle.ts";

const root = join(import.meta.dirname, "..");
const folder = resolve(process.argv[2] ?? join(root, "dist/bin"));

const { output } = await bundle({ input: { process: "src/cli/process.ts" }, folder, format: "cjs" });
const sources = output.map((file) => (file.type === "chunk" ? file.code : ""));
const define = { BUILD_ID: JSON.stringify(hash("sha256", sources.join("\0"), "hex").slice(0, 16)) };
await bundle({ input: { qm: "src/cli/launcher.ts" }, folder, define, clean: false });

const bundled = output.flatMap((file) => (file.type === "chunk" ? Object.keys(file.modules) : []));
const packages = new Set(
  bundled.map((path) => /^.*[\\/]node_modules[\\/](?:@[^\\/]+[\\/])?[^\\/]+/.exec(path)?.[0] ?? ""),
);
const notices = [...packages].filter((path) => path !== "").map(noticeOf);
writeFileSync(join(folder, "THIRD-PARTY.txt"), notices.sort().join(`\n${"-".repeat(80)}\n\n`));

/** The licence texts that a package must be distributed with. */
function noticeOf(path: string): string {
  const { name, version, license } = JSON.parse(readFileSync(join(path, "package.json"), "utf8"));
  const files = readdirSync(path).filter((file) => /^(?:licen[cs]e|notice|copying)\b/i.test(file));
  if (files.length === 0) throw new Error(`${path} has no licence file to distribute`);
  const texts = files.map((file) => readFileSync(join(path, file), "utf8").trim());
  return `${name} ${version} (${license})\n\n${texts.join("\n\n")}\n`;
}

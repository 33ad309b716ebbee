/**
 * Bundles the packages of the library into the given folder or dist. Each source file of our own stays one file. Packages
 * that `dependencies` does not list become files in `vendor`, because most of what they install is never used.
 */
import { readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import packageInfo from "../package.json" with { type: "json" };
import { bundle } from "./bundle.ts";
import { writeLicences } from "./third-party.ts";

const root = join(import.meta.dirname, "..");
const folder = resolve(process.argv[2] ?? join(root, "dist"));

const sources = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
  .map((path) => path.replaceAll("\\", "/"))
  .filter((path) => path.endsWith(".ts") && !/^cli\/|(?:\.test|\.test-d|(?:^|\/)testing)\.ts$/.test(path));
const installed = Object.keys({ ...packageInfo.dependencies, ...packageInfo.peerDependencies });

const library = await bundle({
  input: Object.fromEntries(sources.map((path) => [path.slice(0, -".ts".length), `src/${path}`])),
  folder,
  define: { PAGE_PACKAGES: JSON.stringify("../../vendor/page") },
  external: (id) => installed.some((name) => id === name || id.startsWith(`${name}/`)),
  nameShared: (id) => `vendor/${/.*node_modules[\\/]((?:@[^\\/]+[\\/])?[^\\/]+)/.exec(id)?.[1] ?? "runtime"}`,
});
// The process that converts pages loads these by their paths.
const names = ["@mozilla/readability", "htmlparser2", "linkedom", "robots-parser", "turndown", "unpdf"];
const input = Object.fromEntries(names.map((name) => [name.replace(/^.*\//, ""), name]));
// unpdf uses it only for what the process does not need.
const define = { "import.meta": "{}" };
const page = await bundle({ input, folder: join(folder, "vendor/page"), format: "cjs", define });
writeLicences(join(folder, "vendor/THIRD-PARTY.txt"), [library, page]);

/**
 * Bundles the command into the given folder or dist/bin. A few files replace the hundreds of the command and its libraries,
 * because reading them takes most of the start time. Modules that are imported later stay in separate files.
 */
import { hash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { bundle } from "./bundle.ts";
import { writeLicences } from "./third-party.ts";

const folder = resolve(process.argv[2] ?? join(import.meta.dirname, "../dist/bin"));

const define = { PAGE_PACKAGES: JSON.stringify("../vendor/page") };
const program = await bundle({ input: { process: "src/cli/process.ts" }, folder, format: "cjs", define });
const sources = program.output.map((file) => (file.type === "chunk" ? file.code : ""));
const id = { BUILD_ID: JSON.stringify(hash("sha256", sources.join("\0"), "hex").slice(0, 16)) };
await bundle({ input: { qm: "src/cli/launcher.ts" }, folder, format: "launcher", define: id, clean: false });
// Node starts a CommonJS file some milliseconds faster than an ES module.
writeFileSync(join(folder, "package.json"), '{ "type": "commonjs" }\n');
writeLicences(join(folder, "THIRD-PARTY.txt"), [program]);

import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { speak } from "./speak.mjs";

/**
 * `[stubborn]`: starts a process of its own that ignores signals and holds its stdout, and tells its number when asked.
 * With `stubborn` it does not go by itself either.
 */
const stubborn = fileURLToPath(new URL("stubborn.mjs", import.meta.url));
const grandchild = spawn(process.execPath, [stubborn, "mute"], { stdio: ["ignore", "inherit", "pipe"] });
if (process.argv[2] === "stubborn") {
  for (const signal of ["SIGTERM", "SIGHUP", "SIGINT"]) process.on(signal, () => {});
  setInterval(() => {}, 1_000);
} else process.stdin.on("end", () => process.exit());
// It answers once the other one has said that signals do not reach it any more.
grandchild.stderr.once("data", () =>
  speak({
    "test/grandchild": () => ({ pid: grandchild.pid }),
    "test/leave": () => process.exit(5),
  }),
);

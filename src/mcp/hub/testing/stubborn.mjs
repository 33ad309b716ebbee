import { speak } from "./speak.mjs";

/**
 * `[mute|tidy]`: answers, but neither the end of its stdin nor a signal that can be ignored makes it go. With `mute` it
 * answers nothing; with `tidy` neither, and SIGTERM makes it go after a while.
 */
const [manner] = process.argv.slice(2);
for (const signal of ["SIGTERM", "SIGHUP", "SIGINT"]) process.on(signal, () => {});
if (manner === "tidy") process.on("SIGTERM", () => setTimeout(leave, 500));
setInterval(() => {}, 1_000);
if (manner === undefined) speak();
process.stderr.write("deaf to signals\n");

function leave() {
  process.stderr.write("tidied up\n", () => process.exit());
}

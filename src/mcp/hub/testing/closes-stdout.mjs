import { closeSync } from "node:fs";

/** Goes on without a stdout. */
closeSync(1);
process.stdin.resume();
setInterval(() => {}, 1_000);

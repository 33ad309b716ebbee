/** Reads nothing at all, and does not go when its stdin ends. */
setInterval(() => {}, 1_000);
process.stderr.write("deaf\n");

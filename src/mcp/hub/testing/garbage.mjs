/** Bytes without a line end, as fast as they are taken; all of them `{` with an argument. */
const bytes = Buffer.alloc(1024 * 1024, process.argv[2] ?? "x");
const more = () => process.stdout.write(bytes, more);
more();
process.stdin.resume().on("end", () => process.exit());

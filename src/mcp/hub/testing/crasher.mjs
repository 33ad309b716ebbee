/** `[code]`: says why on stderr, without a line end, and ends at once. */
process.stderr.write("loading\nfatal: no database at \x1b[31mlocalhost\x1b[0m");
process.exit(Number(process.argv[2] ?? 3));

/** Reads everything and answers nothing. */
process.stdin.resume();
process.stderr.write("waiting for a licence… ");

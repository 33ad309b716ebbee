import { speak } from "./speak.mjs";

/** Ends in the middle of a call. */
speak({
  "tools/call": () => {
    process.stderr.write("panic: out of luck\n");
    process.exit(7);
  },
});

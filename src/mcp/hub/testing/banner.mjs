import { speak } from "./speak.mjs";

/** A banner with no line end: the first message follows on the same line. */
process.stdout.write("* ready {on stdio} * ");
speak();

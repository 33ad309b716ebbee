import { speak } from "./speak.mjs";

/** A good server that also tells which variables and which folder it was started with. */
speak({ "test/environment": () => ({ variables: process.env, cwd: process.cwd(), args: process.argv.slice(2) }) });

import { speak } from "./speak.mjs";

/** `<ms>`: reads nothing and says nothing for so long. */
setTimeout(speak, Number(process.argv[2] ?? 1_000));

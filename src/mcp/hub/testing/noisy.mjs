import { answers, speak } from "./speak.mjs";

/** Prints to stdout whatever comes to its mind: text, JSON that is no message, empty lines, a BOM, Windows line ends. */
process.stdout.write("\uFEFFStarting noisy server v1\r\n\r\n\n");
console.log(JSON.stringify({ level: "info", msg: "listening" }));
console.log("42");
console.log("null");
speak({
  "tools/call": (params) => {
    console.log("calling…");
    process.stderr.write("about to answer\n");
    return answers["tools/call"](params);
  },
});

import { speak } from "./speak.mjs";

/** `tools/call` answers with one line of so many bytes as the argument `bytes` says. */
speak({
  "tools/call": ({ arguments: { bytes } }) => ({ content: [{ type: "text", text: "ä".repeat(bytes / 2) }] }),
});

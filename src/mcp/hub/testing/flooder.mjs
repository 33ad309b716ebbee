import { speak } from "./speak.mjs";

/** Writes notifications as fast as it can for as long as it runs, once it is called, and never answers the call. */
const lines = `${JSON.stringify({ jsonrpc: "2.0", method: "notifications/message", params: { level: "info", data: 1 } })}\n`;
const many = lines.repeat(500);

function flood() {
  while (process.stdout.write(many));
  process.stdout.once("drain", () => setImmediate(flood));
}

speak({ "tools/call": () => setImmediate(flood) && undefined });

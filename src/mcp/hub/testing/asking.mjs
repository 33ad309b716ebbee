import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { answers, write } from "./speak.mjs";

/**
 * A server of before 2026-07-28 that does not answer a call before it is told to, and asks, logs and notes what it
 * hears meanwhile: `hold` stays open until `free`, `ask` puts its `question` to the client and answers with the answer,
 * `later` does so when `now` is called.
 * Everything it gets is written to the file it is given.
 */
const journal = process.argv[2];
const held = [];
const postponed = [];
const waiting = new Map();
let asked = 0;

const text = (value) => ({ content: [{ type: "text", text: JSON.stringify(value) }] });

const tools = {
  hold: (id) => held.push(id),
  free: (id) => {
    for (const other of held.splice(0)) write({ id: other, result: text("freed") });
    write({ id, result: text("freed them") });
  },
  ask: (id, { question }) => {
    const ours = `question-${++asked}`;
    waiting.set(ours, (answer) => write({ id, result: text(answer) }));
    write({ id: ours, ...question });
  },
  later: (id, given) => postponed.push(() => tools.ask(id, given)),
  now: (id) => {
    for (const ask of postponed.splice(0)) ask();
    write({ id, result: text("asked") });
  },
  log: (id, { line }) => {
    write({ method: "notifications/message", params: line });
    write({ id, result: text("logged") });
  },
  change: (id) => {
    write({ method: "notifications/tools/list_changed" });
    write({ id, result: text("changed") });
  },
};

createInterface({ input: process.stdin }).on("line", (line) => {
  if (journal) appendFileSync(journal, `${line}\n`);
  const { id, method, params, result, error } = JSON.parse(line);
  if (method === undefined) return waiting.get(id)?.(result ?? { error });
  if (id === undefined) return;
  if (method === "tools/list")
    return write({
      id,
      result: { tools: Object.keys(tools).map((name) => ({ name, inputSchema: { type: "object" } })) },
    });
  if (method === "tools/call") return tools[params.name](id, params.arguments ?? {});
  const answer = answers[method];
  if (answer === undefined) return write({ id, error: { code: -32601, message: `no method ${method}` } });
  write({ id, result: answer(params) });
});

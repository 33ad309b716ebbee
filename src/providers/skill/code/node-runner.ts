/**
 * The program that runs a JavaScript or TypeScript tool, given to Node with `--eval`. It links the modules itself: only files
 * of the skill and a few modules of Node. Before the tool is loaded it removes every global that could reach the process or
 * the network, because Node's permissions do not cover them. A tool can replace the methods of every prototype that it can
 * import, so no object with such power may inherit from one: there is no socket, and the process gets a prototype of its own.
 */
export const NODE_RUNNER = String.raw`
import { EventEmitter } from "node:events";
import { read, readFileSync, write, writeSync } from "node:fs";
import { createRequire } from "node:module";
import host from "node:process";
import { Writable } from "node:stream";
import { format } from "node:util";
import { fileURLToPath, pathToFileURL } from "node:url";
import { Module, SourceTextModule, SyntheticModule, runInNewContext } from "node:vm";

const ALLOWED = ("assert buffer crypto events fs fs/promises path querystring stream stream/promises " +
  "string_decoder timers timers/promises url util zlib").split(" ");
const KEPT = new Set([...runInNewContext("Object.getOwnPropertyNames(globalThis)"), ...(
  "global Buffer URL URLSearchParams TextEncoder TextDecoder AbortController AbortSignal Event EventTarget DOMException " +
  "setTimeout clearTimeout setInterval clearInterval setImmediate clearImmediate queueMicrotask structuredClone atob btoa " +
  "crypto performance").split(" ")]);
const exit = host.exit.bind(host);
const pending = new Map();
const unsent = [];
let isStarted = false;
let rest = "";
let lastId = 0;

function send(message, then = () => {}) {
  unsent.push({ bytes: Buffer.from(JSON.stringify(message) + "\n"), then });
  if (unsent.length === 1) writeNext();
}
function writeNext() {
  const [next] = unsent;
  write(3, next.bytes, 0, next.bytes.length, null, (error, size) => {
    if (error) exit(1);
    next.bytes = next.bytes.subarray(size);
    if (next.bytes.length === 0) unsent.shift().then();
    if (unsent.length > 0) writeNext();
  });
}
const end = (message) => send(message, () => exit(0));
const describe = (thrown) => {
  try {
    if (!(thrown instanceof Error)) return String(thrown);
    const [, at] = /\/skill\/([^\s()[]+:\d+):\d+/.exec(thrown.stack ?? "") ?? [];
    return thrown.name + ": " + thrown.message + (at === undefined ? "" : " (" + at + ")");
  } catch {
    return "an error that cannot be shown";
  }
};
const fail = (thrown) => end({ error: describe(thrown) });

function take(text) {
  const lines = (rest + text).split("\n");
  rest = lines.pop();
  for (const line of lines) {
    const message = JSON.parse(line);
    if (!isStarted) {
      isStarted = true;
      start(message).catch(fail);
    } else {
      pending.get(message.id)?.(message.outcome);
      pending.delete(message.id);
    }
  }
}
const received = Buffer.alloc(65536);
const decoder = new TextDecoder();
function listen() {
  read(3, received, 0, received.length, null, (error, size) => {
    if (error || size === 0) exit(1);
    const text = decoder.decode(received.subarray(0, size), { stream: true });
    listen();
    take(text);
  });
}
listen();
host.on("uncaughtException", fail);
host.on("unhandledRejection", fail);

function lockDown() {
  const print = (fd) => (...values) => {
    const text = format(...values) + "\n";
    try {
      writeSync(fd, text);
    } catch {
      // The reader is behind. Only the first lines are shown, so what comes later may be lost.
    }
  };
  const [out, err] = [print(1), print(2)];
  const console = { log: out, info: out, debug: out, warn: err, error: err, trace: err };
  for (const key of Reflect.ownKeys(globalThis))
    if (!KEPT.has(key) && key !== Symbol.toStringTag && !Reflect.deleteProperty(globalThis, key))
      throw new Error("the global " + String(key) + " cannot be removed");
  Object.defineProperty(globalThis, "console", { value: console, writable: true, configurable: true });
  Object.setPrototypeOf(host, Object.create(null, Object.getOwnPropertyDescriptors(EventEmitter.prototype)));
  // Node makes sockets of these when it first looks at them.
  for (const name of ["stdin", "stdout", "stderr"]) Object.defineProperty(host, name, { value: new Writable() });
  // A promise asks a module for "then", which the tool could define for all objects.
  Object.setPrototypeOf(Module.prototype, null);
}

async function start({ folder, file, args, amaro }) {
  const root = pathToFileURL(folder + "/");
  const strip = amaro === undefined ? undefined : createRequire(root)(amaro).transformSync;
  // Not maps: the tool could replace their methods.
  const modules = { __proto__: null };
  const builtins = { __proto__: null };
  for (const name of ALLOWED) builtins[name] = await import("node:" + name);
  lockDown();

  function link(specifier, { identifier }) {
    const name = specifier.replace(/^node:/, "");
    const isFile = /^\.\.?\//.test(specifier);
    const url = isFile ? new URL(specifier, identifier).href : "node:" + name;
    if (isFile ? !url.startsWith(root.href) : !(name in builtins))
      throw new Error("cannot import " + JSON.stringify(specifier) + ": a tool can import files of its skill and of Node " +
        ALLOWED.join(", "));
    modules[url] ??= isFile ? load(url) : wrap(url, { ...builtins[name] });
    return modules[url];
  }
  function load(identifier) {
    const path = fileURLToPath(identifier);
    const text = readFileSync(path, "utf8");
    if (path.endsWith(".json")) return wrap(identifier, { default: JSON.parse(text) });
    const source = path.endsWith(".ts") ? strip(text, { mode: "strip-only" }).code : text;
    const importModuleDynamically = async (specifier, referrer) => ready(link(specifier, referrer));
    const initializeImportMeta = (meta) => { meta.url = identifier; };
    try {
      return new SourceTextModule(source, { identifier, importModuleDynamically, initializeImportMeta });
    } catch (thrown) {
      throw new SyntaxError(thrown.message + " in " + identifier.slice(root.href.length));
    }
  }
  const wrap = (identifier, exported) =>
    new SyntheticModule(Object.keys(exported), function () {
      for (const key of Object.keys(exported)) this.setExport(key, exported[key]);
    }, { identifier });
  async function ready(module) {
    if (module.status === "unlinked") await module.link(link);
    await module.evaluate();
    return module;
  }

  const { namespace } = await ready(link("./" + file, { identifier: root.href }));
  const tool = namespace.tool ?? namespace.default;
  if (typeof tool !== "function") throw new Error(file + " exports no function named tool, and no default function");
  const context = {
    call: (name, args = {}) => new Promise((resolve) => {
      const id = ++lastId;
      pending.set(id, resolve);
      send({ call: { id, name, args } });
    }),
    progress: (progress, total, message) => void send({ progress: { progress, total, message } }),
  };
  const result = await tool(args, context);
  end({ result: result === undefined ? null : result });
}
`;

import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { messageOf, QmError } from "../core/errors.ts";
import { getOwn, isRecord } from "../core/json.ts";
import { quoted } from "../core/names.ts";
import type { Io } from "./io.ts";

/** More than the door takes, and little enough to hold. */
const TEXT_LIMIT = 16 * 1024 * 1024;

/** The arguments of a call in any of the ways to write them; `{}` when there are none. Throws `invalid_arguments`. */
export async function callArguments(
  given: string | undefined,
  pairs: readonly string[],
  io: Io,
  schema: () => unknown,
): Promise<unknown> {
  if (pairs.length === 0) return given === undefined ? {} : parsed(await textOf(given, io), given);
  if (given !== undefined) throw wrong("give the arguments as JSON or with --arg, not both");
  return paired(pairs, schema());
}

async function textOf(given: string, io: Io): Promise<string> {
  if (given === "-") return Promise.race([gathered(io.stdin), interrupted(io.signal)]);
  if (!given.startsWith("@")) return given;
  const path = given.slice(1);
  return readFile(resolve(io.cwd, path), "utf8").catch((thrown) => {
    throw wrong(`the arguments in ${quoted(path)} cannot be read: ${messageOf(thrown)}`);
  });
}

/** Rejects when the user has had enough of typing. */
async function interrupted(signal: AbortSignal): Promise<never> {
  if (!signal.aborted) await once(signal, "abort");
  throw new QmError("cancelled", "interrupted while reading the arguments");
}

async function gathered(stdin: Io["stdin"]): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of stdin) {
    chunks.push(Buffer.from(chunk));
    size += chunk.length;
    if (size > TEXT_LIMIT) throw wrong(`the arguments on stdin are longer than ${TEXT_LIMIT} bytes`);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function parsed(text: string, given: string): unknown {
  try {
    return JSON.parse(text);
  } catch (thrown) {
    const where = given === "-" ? " on stdin" : given.startsWith("@") ? ` in ${quoted(given.slice(1))}` : "";
    throw wrong(`the arguments${where} are not JSON: ${messageOf(thrown)}`, HINT);
  }
}

const HINT = `Write them as '{"key": "value"}', or as --arg key=value; - reads stdin, @file.json a file.`;

/** `key=value` as the schema wants it, `key:=json` as it is written; a key that comes again makes a list. */
function paired(pairs: readonly string[], schema: unknown): Record<string, unknown> {
  const properties = isRecord(schema) && isRecord(schema.properties) ? schema.properties : {};
  const args = new Map<string, unknown[]>();
  for (const pair of pairs) {
    const [, key, colon, text = ""] = /^([^=:]+)(:?)=(.*)$/s.exec(pair) ?? [];
    if (key === undefined) throw wrong(`--arg ${quoted(pair)} is not key=value`);
    const value = colon === ":" ? parsed(text, "") : valueFor(text, getOwn(properties, key));
    args.set(key, [...(args.get(key) ?? []), value]);
  }
  return Object.fromEntries([...args].map(([key, values]) => [key, values.length === 1 ? values[0] : values]));
}

function valueFor(text: string, schema: unknown): unknown {
  const type = isRecord(schema) ? schema.type : undefined;
  const item = isRecord(schema) && type === "array" && isRecord(schema.items) ? schema.items.type : type;
  if (item === "string") return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function wrong(message: string, hint?: string): QmError {
  return new QmError("invalid_arguments", message, hint === undefined ? {} : { hint });
}

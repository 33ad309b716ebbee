import { Console } from "node:console";
import { Writable } from "node:stream";
import type { Io } from "./io.ts";

const told = ["log", "info", "debug", "dir", "table"] as const;

/** Whatever a subject says while it works is about the answer, not the answer. */
export async function besideAnswer<T>({ stderr }: Pick<Io, "stderr">, work: () => Promise<T>): Promise<T> {
  const sink = new Writable({
    decodeStrings: false,
    write(text, _encoding, done) {
      stderr.write(String(text));
      done();
    },
  });
  const aside = new Console({ stdout: sink, stderr: sink });
  const before = told.map((name) => [name, console[name]] as const);
  for (const name of told) console[name] = aside[name].bind(aside);
  try {
    return await work();
  } finally {
    for (const [name, say] of before) console[name] = say;
  }
}

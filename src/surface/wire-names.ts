import { hash } from "node:crypto";

/** Both ways between names and what the narrowest provider grammar takes, for one set of names. */
export interface WireNames {
  toWire(name: string): string;
  fromWire(wire: string): string | undefined;
}

const WIRE = /^[a-zA-Z0-9_-]{1,64}$/;
// Every name that had to be rewritten ends like this and no other does, so the two kinds cannot meet.
const REWRITTEN = /-[0-9a-f]{12}(?:[0-9a-f]{12})?$/;

/**
 * A name that fits stays itself; any other is cut and gets a hash of the whole, so that its wire name depends on nothing
 * but itself and stays the same whatever else is added. Should two still meet, both get the longer hash.
 */
export function wireNames(names: Iterable<string>): WireNames {
  const wires = new Map<string, string>();
  const back = new Map<string, string>();
  const all = [...new Set(names)];
  const met = repeated(all.map((name) => wireOf(name, 12)));
  for (const name of all) {
    const short = wireOf(name, 12);
    const wire = met.has(short) ? wireOf(name, 24) : short;
    wires.set(name, wire);
    back.set(wire, name);
  }
  return { toWire: (name) => wires.get(name) ?? wireOf(name, 12), fromWire: (wire) => back.get(wire) };
}

export function wireOf(name: string, hashLength = 12): string {
  if (WIRE.test(name) && !REWRITTEN.test(name)) return name;
  const ending = hash("sha256", name, "hex").slice(0, hashLength);
  const plain = name.replace(/[^a-zA-Z0-9_-]/gu, "_").slice(0, 64 - hashLength - 1);
  return `${plain}-${ending}`;
}

function repeated(values: readonly string[]): ReadonlySet<string> {
  const seen = new Set<string>();
  return new Set(values.filter((value) => seen.size === seen.add(value).size));
}

import { hash } from "node:crypto";
import type { View } from "../catalog/view.ts";
import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import type { SurfaceBackend, SurfaceTool } from "./surface.ts";

/** Both ways between names and what the narrowest provider grammar takes, for one set of names. */
interface WireNames {
  toWire(name: string): string;
  /** Undefined for one that was made of none of the names; whether there is an action of the name, the view knows. */
  fromWire(wire: string): string | undefined;
}

const WIRE_NAME = /^[a-zA-Z0-9_-]{1,64}$/;
// Every name that had to be rewritten ends like this and no other does, so the two kinds cannot meet.
const REWRITTEN = /-[0-9a-f]{12}(?:[0-9a-f]{12})?$/;

/**
 * A name that fits stays itself; any other is cut and gets a hash of the whole, so that its wire name depends on nothing
 * but itself and stays the same whatever else is added. Should two still meet, both get the longer hash.
 */
export function createWireNames(names: Iterable<string>): WireNames {
  const odd = [...new Set(names)].filter((name) => !isWireName(name));
  const met = findRepeated(odd.map((name) => toWireName(name, 12)));
  const wires = new Map(
    odd.map((name) => [name, met.has(toWireName(name, 12)) ? toWireName(name, 24) : toWireName(name, 12)]),
  );
  const back = new Map([...wires].map(([name, wire]) => [wire, name]));
  return {
    toWire: (name) => wires.get(name) ?? toWireName(name, 12),
    fromWire: (wire) => (isWireName(wire) ? wire : back.get(wire)),
  };
}

export function toWireName(name: string, hashLength = 12): string {
  if (isWireName(name)) return name;
  const ending = hash("sha256", name, "hex").slice(0, hashLength);
  const plain = name.replace(/[^a-zA-Z0-9_-]/gu, "_").slice(0, 64 - hashLength - 1);
  return `${plain}-${ending}`;
}

function isWireName(name: string): boolean {
  return WIRE_NAME.test(name) && !REWRITTEN.test(name);
}

function findRepeated(values: readonly string[]): ReadonlySet<string> {
  const seen = new Set<string>();
  return new Set(values.filter((value) => seen.size === seen.add(value).size));
}

const wireNameCache = new WeakMap<View, WireNames>();

/** The wire names of everything in a view, made once for each. */
export function getWireNames(view: View): WireNames {
  let names = wireNameCache.get(view);
  if (names === undefined) {
    names = createWireNames(view.actions().map((action) => action.name));
    wireNameCache.set(view, names);
  }
  return names;
}

/** An action as a tool of its own. */
export function toNativeTool(view: View, { name, description, inputSchema, effect }: Action): SurfaceTool {
  return { name: getWireNames(view).toWire(name), description, inputSchema, effect };
}

/** The tools of some actions, sorted. */
export function toNativeTools(view: View, actions: readonly Action[]): readonly SurfaceTool[] {
  return actions.map((action) => toNativeTool(view, action)).sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** What a model means by the name of a tool: the action with that wire name, or the name as it is. */
export function resolveToolName(view: View, tool: string): string {
  return view.get(tool) === undefined ? (getWireNames(view).fromWire(tool) ?? tool) : tool;
}

/** No view where the caller's actor is not there any more: the door says so, and nothing of it is shown. */
export function findView(counter: SurfaceBackend, caller: Caller): View | undefined {
  try {
    return counter.viewOf(caller);
  } catch {
    return undefined;
  }
}

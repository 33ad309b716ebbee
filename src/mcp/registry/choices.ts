import { QmError } from "../../core/errors.ts";
import { quoted } from "../../core/names.ts";
import { isRunnable, runnerOf } from "./package-command.ts";
import type { Package, Remote, ServerJson } from "./server-json.ts";

/** One way to have a server: one of its packages, or an address where it runs already. */
export type Choice = {
  /** What it is chosen by: `npm`, `remote`, and `npm-2` for a second one of the same kind. */
  readonly id: string;
} & ({ readonly kind: "package"; readonly pkg: Package } | { readonly kind: "remote"; readonly remote: Remote });

/**
 * Which comes first where nobody has chosen: what runs here, under our eyes, before what runs elsewhere; what npx starts
 * first, because Node is there. A package that serves HTTP comes last, because somebody has to start it.
 */
const ORDER = ["npm", "pypi", "oci", "nuget", "mcpb", "remote"];

/** All ways to have a server, the preferred first. `hasCommand` tells which programs are there. */
export function choicesOf(
  server: ServerJson,
  hasCommand: (command: string) => boolean = () => true,
): readonly Choice[] {
  const counts = new Map<string, number>();
  const idOf = (kind: string): string => {
    const count = (counts.get(kind) ?? 0) + 1;
    counts.set(kind, count);
    return count === 1 ? kind : `${kind}-${count}`;
  };
  const all: readonly Choice[] = [
    ...server.packages.map((pkg): Choice => ({ id: idOf(pkg.registryType), kind: "package", pkg })),
    ...server.remotes.map((remote): Choice => ({ id: idOf("remote"), kind: "remote", remote })),
  ];
  return all
    .map((choice) => ({ choice, rank: rankOf(choice, hasCommand) }))
    .sort((a, b) => a.rank - b.rank)
    .map(({ choice }) => choice);
}

/** The way that was asked for, or the preferred one. Throws `invalid_arguments` when there is none that can be used. */
export function chosen(server: ServerJson, id: string | undefined, hasCommand?: (command: string) => boolean): Choice {
  const choices = choicesOf(server, hasCommand);
  const usable = choices.filter((choice) => problemWith(choice) === undefined);
  const ids = usable.map((choice) => choice.id);
  const picked = id === undefined ? (usable[0] ?? choices[0]) : choices.find((choice) => choice.id === id);
  const instead =
    ids.length === 0 ? "Add its command or its URL yourself, if it has one." : `Choose: ${ids.join(", ")}.`;
  if (picked === undefined) {
    const what = id === undefined ? "no package and no address that can be read" : `nothing called ${quoted(id)}`;
    const broken = server.problems.length === 0 ? "" : ` (${quoted(server.problems.join("; "))})`;
    throw new QmError("invalid_arguments", `${quoted(server.name)} has ${what}${broken}`, { hint: instead });
  }
  const problem = problemWith(picked);
  if (problem === undefined) return picked;
  throw new QmError("invalid_arguments", `${quoted(server.name)} cannot be had that way: ${problem}`, {
    hint: instead,
  });
}

function rankOf(choice: Choice, hasCommand: (command: string) => boolean): number {
  if (problemWith(choice) !== undefined) return 1000;
  if (choice.kind === "remote") return ORDER.indexOf("remote");
  const runner = runnerOf(choice.pkg);
  const later =
    (choice.pkg.transport.type === "stdio" ? 0 : 200) + (runner === undefined || hasCommand(runner) ? 0 : 100);
  return later + ORDER.indexOf(choice.pkg.registryType);
}

function problemWith(choice: Choice): string | undefined {
  const type = choice.kind === "remote" ? choice.remote.type : choice.pkg.transport.type;
  if (type === "sse") return "it speaks only the old SSE transport, which is not supported";
  if (choice.kind === "remote")
    return type === "streamable-http" ? undefined : `its transport ${quoted(type)} is not known`;
  const { registryType } = choice.pkg;
  if (registryType !== "mcpb" && !isRunnable(registryType))
    return `packages of ${quoted(registryType)} cannot be started`;
  return type === "stdio" || type === "streamable-http" ? undefined : `its transport ${quoted(type)} is not known`;
}

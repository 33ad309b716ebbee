import { builtModules } from "../built.ts";

type Index = typeof import("../../src/search/lexical/lexical-index.ts");
type Order = typeof import("../../src/search/hits.ts");
export type Lexical = Index & Order;

/** The search by words. It is not part of the public API, so it is imported from its own file. */
export async function compiledLexical(): Promise<{ readonly lexical: Lexical; remove(): void }> {
  const { modules, remove } = await builtModules<[Index, Order]>("search/lexical/lexical-index.js", "search/hits.js");
  return { lexical: { ...modules[0], ...modules[1] }, remove };
}

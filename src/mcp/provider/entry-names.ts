import { hash } from "node:crypto";
import { SEPARATOR } from "../../core/names.ts";

const LONGEST = 200;
// A slash is for what is no tool, such as `resources/read`; MCP does not have it in names of tools.
const REFUSED = /[^\p{L}\p{N}\p{M}_.:@+~-]/gu;

/**
 * What a server's tool is called within the category: the server's name and its own. A name that is too long or holds what
 * no entry may hold is cut and gets a hash of the whole, so that two tools never become one.
 */
export function toolEntry(server: string, tool: string): string {
  const fits = tool.length <= LONGEST && tool !== "" && tool.search(REFUSED) < 0 && tool.normalize("NFC") === tool;
  if (fits) return `${server}${SEPARATOR}${tool}`;
  const plain = tool.normalize("NFC").replace(REFUSED, "_").slice(0, LONGEST);
  return `${server}${SEPARATOR}${plain}-${hash("sha256", tool, "hex").slice(0, 12)}`;
}

/** What something else that a server offers is called, by the method of MCP that it stands for. */
export function methodEntry(server: string, method: string): string {
  return `${server}${SEPARATOR}${method}`;
}

import type { ServerEntry } from "./entry.ts";

const OUR_NAMES = /^(?:qm|quartermaster)$/;
const OUR_PACKAGE = /^quartermaster(?:@[\w.^~*-]+)?$/;
const OUR_BIN = /(?:^|[\\/])dist[\\/]bin[\\/]qm\.js$/;

/** How this installation can be reached. */
export interface OwnAddresses {
  /** The file that is the program. */
  readonly bin: string;
  /** Of the gateway. */
  readonly urls: readonly string[];
}

/**
 * Whether an entry is Quartermaster itself, started or addressed. A gateway that is its own server would start itself
 * until the machine gives in.
 */
export function isOurselves({ command, args = [], url }: ServerEntry, own: OwnAddresses): boolean {
  const urls = own.urls.map(plainUrl);
  if (url !== undefined) return urls.includes(plainUrl(url));
  const words = [command ?? "", ...args];
  // Not only the command: `cmd /c`, `npx`, `env` and bridges for remote servers have the rest as arguments.
  return words.some((word, at) => {
    if (urls.includes(plainUrl(word)) || word === own.bin) return true;
    const program = (word.split(/[\\/]/).at(-1) ?? "").replace(/\.(?:cmd|exe|ps1)$/i, "");
    const isPackage = OUR_PACKAGE.test(word) && at > 0;
    const isProgram = OUR_NAMES.test(program) || OUR_BIN.test(word);
    return isPackage || (isProgram && words.slice(at + 1).includes("mcp"));
  });
}

/** Without what makes no difference: case of the host, its other name, a slash at the end, what follows the path. */
function plainUrl(url: string): string {
  try {
    const { protocol, hostname, port, pathname } = new URL(url);
    const host = ["localhost", "[::1]", "0.0.0.0"].includes(hostname) ? "127.0.0.1" : hostname;
    return `${protocol}//${host}:${port}${pathname.replace(/\/+$/, "")}`;
  } catch {
    return url;
  }
}

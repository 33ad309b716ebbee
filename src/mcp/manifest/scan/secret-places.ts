import type { Finding } from "./finding.ts";
import type { Word } from "./words.ts";

/** Where keys and passwords lie, in folded text. */
const PLACES: readonly string[] = [
  "~/.ssh",
  ".ssh/",
  "id_rsa",
  "id_ed25519",
  "/etc/passwd",
  "/etc/shadow",
  ".aws/credentials",
  ".bash_history",
  ".zsh_history",
  ".npmrc",
  ".netrc",
  ".pgpass",
  ".kube/config",
  ".git-credentials",
  ".cursor/mcp.json",
  "claude_desktop_config",
  "wallet.dat",
  ".env",
  ".pem",
];

/** What is done with them there, or with what comes out. */
const HANDED_OVER: ReadonlySet<string> = new Set(
  "pass include supply provide paste put give given attach send hand copy insert append contents content output".split(
    " ",
  ),
);
const READ: ReadonlySet<string> = new Set(
  "read reading open load cat fetch collect first prior requires required need needs must".split(" "),
);

/**
 * A place of secrets is a mark where it stands as an example; where somebody is told to read it and to hand over what is
 * there, it is more.
 */
export function secretPlacesFound(text: string, words: readonly Word[]): readonly Finding[] {
  for (const place of PLACES) {
    const from = indexOfPlace(text, place);
    if (from < 0) continue;
    const sentence = words.findLast((word) => word.from <= from + place.length)?.sentence ?? 0;
    const near = words.filter((word) => Math.abs(word.sentence - sentence) <= 1);
    const isHanded = near.some((word) => HANDED_OVER.has(word.text));
    const isRead = near.some((word) => READ.has(word.text));
    return [{ kind: "secrets", severity: isHanded && isRead ? "serious" : "mild", from, to: from + place.length }];
  }
  return [];
}

/** Where nothing goes on that would make it another word: `.env` is not in `.environment` or `process.env`. */
function indexOfPlace(text: string, place: string): number {
  for (let at = text.indexOf(place); at >= 0; at = text.indexOf(place, at + 1)) {
    const before = text[at - 1] ?? " ";
    const after = text[at + place.length] ?? " ";
    const isOpen = place.endsWith("/") || !/[a-z0-9_]/.test(after);
    if (isOpen && (!place.startsWith(".") || !/[a-z0-9_)\]]/.test(before))) return at;
  }
  return -1;
}

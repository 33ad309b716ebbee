import type { FindingKind, FindingSeverity, TextFinding } from "./finding.ts";
import { foldForScan, type ScannedWord } from "./text-words.ts";

/** Paths of keys and passwords, in folded text. */
const SECRET_PATHS =
  "~/.ssh .ssh/ id_rsa id_ed25519 /etc/passwd /etc/shadow .aws/credentials .bash_history .zsh_history .npmrc .netrc .pgpass .kube/config .git-credentials .cursor/mcp.json claude_desktop_config wallet.dat .env .pem";
const HANDED_OVER =
  /^(?:pass|include|supply|provide|paste|put|given?|attach|send|hand|copy|insert|append|contents?|output)$/;
const READ = /^(?:read|reading|open|load|cat|fetch|collect|first|prior|requires|required|needs?|must)$/;

/** Finds paths of secrets. Serious if the text around tells the model to read the file and hand over its content. */
export function findSecretPaths(text: string, words: readonly ScannedWord[]): readonly TextFinding[] {
  for (const path of SECRET_PATHS.split(" ")) {
    const from = findPathIndex(text, path);
    if (from < 0) continue;
    const to = from + path.length;
    const sentence = words.findLast((word) => word.from <= to)?.sentence ?? 0;
    const near = words.filter((word) => Math.abs(word.sentence - sentence) <= 1);
    const isSerious = [HANDED_OVER, READ].every((pattern) => near.some((word) => pattern.test(word.text)));
    return [{ kind: "secrets", severity: isSerious ? "serious" : "mild", from, to }];
  }
  return [];
}

/** Finds the path as a whole word: `.env` does not occur in `.environment` or `process.env`. */
function findPathIndex(text: string, path: string): number {
  for (let at = text.indexOf(path); at >= 0; at = text.indexOf(path, at + 1)) {
    const before = text[at - 1] ?? " ";
    const after = text[at + path.length] ?? " ";
    const isOpen = path.endsWith("/") || !/[a-z0-9_]/.test(after);
    if (isOpen && (!path.startsWith(".") || !/[a-z0-9_)\]]/.test(before))) return at;
  }
  return -1;
}

const MAX_LINK_LENGTH = 500;

/** Finds Markdown images. A client that shows one with a placeholder in its URL sends the data to a stranger. */
export function findImageLinks(text: string): readonly TextFinding[] {
  const from = text.indexOf("![");
  const open = from < 0 ? -1 : text.indexOf("](http", from);
  if (open < 0 || open - from > MAX_LINK_LENGTH) return [];
  const address = text.slice(open + 2, open + MAX_LINK_LENGTH).split(")", 1)[0] ?? "";
  const severity = /[<{$%]|\?\w+=/.test(address) ? "serious" : "mild";
  return [{ kind: "exfiltration", severity, from, to: open + 2 + address.length }];
}

// Every marker contains one of these characters, and hardly any other text does.
const PROMISING = /[<[|:#\P{ASCII}]/u;
let folded: readonly { kind: FindingKind; severity: FindingSeverity; markers: readonly string[] }[] | undefined;

/** Finds literal markers in a folded text, at most one of each group. */
export function findPromptMarkers(text: string): readonly TextFinding[] {
  if (!PROMISING.test(text)) return [];
  folded ??= listMarkers().map(([kind, severity, markers]) => ({ kind, severity, markers: markers.map(foldForScan) }));
  return folded.flatMap(({ kind, severity, markers }) => {
    const marker = markers.find((each) => text.includes(each));
    if (marker === undefined) return [];
    const from = text.indexOf(marker);
    return [{ kind, severity, from, to: from + marker.length }];
  });
}

function listMarkers(): readonly (readonly [FindingKind, FindingSeverity, readonly string[]])[] {
  const imitations = [
    ..."<|im_start|> <|im_end|> <|system|> <|user|> <|assistant|> <|endoftext|> [inst] [/inst] <<sys>>".split(" "),
    ..."<system> </system> <system_prompt> <system-reminder> <assistant> <assistant_instructions>".split(" "),
    ..."<secret> <hidden> </tool_description> <important>".split(" "),
    ...["<!-- system", "[hidden", "[system]", "### instruction", "### system", "###system", "\nsystem:"],
  ];
  const tags = ["<!--", "<instructions>", "<instruction>", "<critical>", "<admin>"];
  const instructions = [
    "| bash",
    "|bash",
    "\u5ffd\u7565\u4e4b\u524d",
    "\u5ffd\u7565\u4ee5\u4e0a",
    "\u5ffd\u7565\u6240\u6709",
    "\u5ffd\u7565\u5148\u524d",
    "\u6307\u793a\u3092\u3059\u3079\u3066\u7121\u8996",
    "\u6307\u793a\u3092\u7121\u8996",
    "\uc774\uc804 \uc9c0\uc2dc\ub97c \ubb34\uc2dc",
  ];
  const concealments = [
    "\u4e0d\u8981\u544a\u8bc9\u7528\u6237",
    "\u4e0d\u8981\u544a\u77e5\u7528\u6237",
    "\u30e6\u30fc\u30b6\u30fc\u306b\u306f\u4f1d\u3048\u306a\u3044",
    "\u30e6\u30fc\u30b6\u30fc\u306b\u4f1d\u3048\u306a\u3044",
  ];
  return [
    ["prompt_imitation", "serious", imitations],
    ["prompt_imitation", "mild", [...tags, "\nassistant:", "\nhuman:", " system: ", "\nuser:"]],
    ["instructions", "serious", instructions],
    ["concealment", "serious", concealments],
  ];
}

import type { TextFinding } from "./finding.ts";
import { foldForScan, type ScannedWord } from "./text-words.ts";

/** Where keys and passwords lie, in folded text. */
const SECRET_PATHS: readonly string[] = [
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
export function findSecretPaths(text: string, words: readonly ScannedWord[]): readonly TextFinding[] {
  for (const place of SECRET_PATHS) {
    const from = findPathIndex(text, place);
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
function findPathIndex(text: string, place: string): number {
  for (let at = text.indexOf(place); at >= 0; at = text.indexOf(place, at + 1)) {
    const before = text[at - 1] ?? " ";
    const after = text[at + place.length] ?? " ";
    const isOpen = place.endsWith("/") || !/[a-z0-9_]/.test(after);
    if (isOpen && (!place.startsWith(".") || !/[a-z0-9_)\]]/.test(before))) return at;
  }
  return -1;
}

/** How long an address may be to be looked at. */
const MAX_LINK_LENGTH = 500;

/**
 * Images whose address has a gap to be filled: whoever shows the answer sends what was filled in to somebody. A text has
 * no other reason to hold an image.
 */
export function findImageLinks(text: string): readonly TextFinding[] {
  const from = text.indexOf("![");
  const open = from < 0 ? -1 : text.indexOf("](http", from);
  if (open < 0 || open - from > MAX_LINK_LENGTH) return [];
  const address = text.slice(open + 2, open + MAX_LINK_LENGTH).split(")", 1)[0] ?? "";
  const severity = /[<{$%]|\?\w+=/.test(address) ? "serious" : "mild";
  return [{ kind: "exfiltration", severity, from, to: open + 2 + address.length }];
}

/** Texts that are looked for as they are. */
const MARKERS: readonly (readonly [TextFinding["kind"], TextFinding["severity"], readonly string[]])[] = [
  [
    "prompt_imitation",
    "serious",
    [
      "<|im_start|>",
      "<|im_end|>",
      "<|system|>",
      "<|user|>",
      "<|assistant|>",
      "<|endoftext|>",
      "[inst]",
      "[/inst]",
      "<<sys>>",
      "<system>",
      "</system>",
      "<system_prompt>",
      "<system-reminder>",
      "<assistant>",
      "<assistant_instructions>",
      "<secret>",
      "<hidden>",
      "</tool_description>",
      "<important>",
      "<!-- system",
      "[hidden",
      "[system]",
      "### instruction",
      "### system",
      "###system",
      "\nsystem:",
    ],
  ],
  [
    "prompt_imitation",
    "mild",
    [
      "<!--",
      "<instructions>",
      "<instruction>",
      "<critical>",
      "<admin>",
      "\nassistant:",
      "\nhuman:",
      " system: ",
      "\nuser:",
    ],
  ],
  [
    "instructions",
    "serious",
    [
      "| bash",
      "|bash",
      "\u5ffd\u7565\u4e4b\u524d",
      "\u5ffd\u7565\u4ee5\u4e0a",
      "\u5ffd\u7565\u6240\u6709",
      "\u5ffd\u7565\u5148\u524d",
      "\u6307\u793a\u3092\u3059\u3079\u3066\u7121\u8996",
      "\u6307\u793a\u3092\u7121\u8996",
      "\uc774\uc804 \uc9c0\uc2dc\ub97c \ubb34\uc2dc",
    ],
  ],
  [
    "concealment",
    "serious",
    [
      "\u4e0d\u8981\u544a\u8bc9\u7528\u6237",
      "\u4e0d\u8981\u544a\u77e5\u7528\u6237",
      "\u30e6\u30fc\u30b6\u30fc\u306b\u306f\u4f1d\u3048\u306a\u3044",
      "\u30e6\u30fc\u30b6\u30fc\u306b\u4f1d\u3048\u306a\u3044",
    ],
  ],
];

const FOLDED_MARKERS = MARKERS.map(([kind, severity, marks]) => ({ kind, severity, marks: marks.map(foldForScan) }));

// Every mark has one of these in it, and hardly any other text has.
const PROMISING = /[<[|:#\P{ASCII}]/u;

/** Looks for marks in a folded text. */
export function findPromptMarkers(text: string): readonly TextFinding[] {
  if (!PROMISING.test(text)) return [];
  return FOLDED_MARKERS.flatMap(({ kind, severity, marks }) => {
    for (const mark of marks) {
      const from = text.indexOf(mark);
      if (from >= 0) return [{ kind, severity, from, to: from + mark.length }];
    }
    return [];
  });
}

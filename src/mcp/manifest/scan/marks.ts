import type { Finding } from "./finding.ts";
import { folded } from "./words.ts";

/** Texts that are looked for as they are. */
const MARKS: readonly (readonly [Finding["kind"], Finding["severity"], readonly string[]])[] = [
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

const FOLDED = MARKS.map(([kind, severity, marks]) => ({ kind, severity, marks: marks.map(folded) }));

// Every mark has one of these in it, and hardly any other text has.
const PROMISING = /[<[|:#\P{ASCII}]/u;

/** Looks for marks in a folded text. */
export function marksFound(text: string): readonly Finding[] {
  if (!PROMISING.test(text)) return [];
  return FOLDED.flatMap(({ kind, severity, marks }) => {
    for (const mark of marks) {
      const from = text.indexOf(mark);
      if (from >= 0) return [{ kind, severity, from, to: from + mark.length }];
    }
    return [];
  });
}

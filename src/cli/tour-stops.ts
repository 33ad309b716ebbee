import { exitCodes } from "./exit-codes.ts";

/** What the tour's workspace is made of. */
export const tourFiles = {
  "quartermaster.yaml": `policy:
  rules:
    - name: no-deleting
      rule: "'destructive' in tool.tags"
      effect: deny
      reason: Nothing is deleted on this tour.
actors:
  default:
    tools: ["*"]
  reader:
    tools: [file__read, file__list]
`,
  "hello.txt": "Hello from the other side of the counter.\n",
} as const;

/** One command of the tour. */
export interface Stop {
  readonly title: string;
  readonly argv: readonly string[];
  /** How it must end. */
  readonly code: number;
  /** Said after it, where the exit code is the point. */
  readonly meaning?: string;
}

export const stops: readonly Stop[] = [
  { title: "1. What is there to draw?", argv: ["list"], code: exitCodes.done },
  { title: "2. Which one reads a file?", argv: ["search", "read a text file", "--limit", "3"], code: exitCodes.done },
  {
    title: "3. A call that is done",
    argv: ["invoke", "file__read", '{"path":"hello.txt"}'],
    code: exitCodes.done,
    meaning: "done",
  },
  {
    title: "4. A call that the policy refuses",
    argv: ["invoke", "file__delete", '{"path":"hello.txt"}'],
    code: exitCodes.refused,
    meaning: "refused, so the file is still there",
  },
  {
    title: "5. A call that fails",
    argv: ["invoke", "file__read", '{"path":"helo.txt"}'],
    code: exitCodes.failed,
    meaning: "failed, with what to do about it",
  },
  { title: "6. Why was it refused?", argv: ["explain", "file__delete"], code: exitCodes.done },
  { title: "7. Others see less", argv: ["list", "--actor", "reader"], code: exitCodes.done },
  { title: "8. All of it is in the ledger", argv: ["events", "--type", "call."], code: exitCodes.done },
  { title: "9. And nobody has touched it since", argv: ["events", "verify"], code: exitCodes.done },
];

/**
 * - `hidden_characters`: characters that nobody sees, or that a terminal acts on
 * - `disguised_letters`: letters that look like others
 * - `instructions`: words that are meant for the model and not for whoever chooses a tool
 * - `concealment`: the user is not to know
 * - `prompt_imitation`: marks with which prompts are built
 * - `exfiltration`: data is to go where nobody asked for it to go
 * - `secrets`: keys, passwords and the files they are in
 * - `encoded_text`: text that one has to decode to read it
 * - `hidden_tail`: text so far away that nobody scrolls there
 * - `other_tools`: what to do with tools that are not this server's
 * - `shadowing`: a name that is taken for another's
 */
const findingKinds = [
  "hidden_characters",
  "disguised_letters",
  "instructions",
  "concealment",
  "prompt_imitation",
  "exfiltration",
  "secrets",
  "encoded_text",
  "hidden_tail",
  "other_tools",
  "shadowing",
] as const;

export type FindingKind = (typeof findingKinds)[number];

/** - `serious`: withheld until a person has looked. - `mild`: marked. */
export type FindingSeverity = "serious" | "mild";

/** One thing about a definition that a person should look at. A sign is no proof. */
export interface ScanFinding {
  readonly kind: FindingKind;
  readonly severity: FindingSeverity;
  /** Where in the definition, as a JSON pointer. */
  readonly where: string;
  /** Short, and safe to show in a terminal. */
  readonly excerpt: string;
}

/** A sign within one text: where it begins and ends there. */
export interface TextFinding extends Pick<ScanFinding, "kind" | "severity"> {
  readonly from: number;
  readonly to: number;
}

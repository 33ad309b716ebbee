export type FindingKind =
  | "hidden_characters" // invisible characters, or characters that a terminal acts on
  | "disguised_letters" // letters that look like others
  | "instructions" // text that commands the model instead of describing the tool
  | "concealment" // the user is not to know
  | "prompt_imitation" // markers used to build prompts
  | "exfiltration" // data is sent to a place that the user did not ask for
  | "secrets" // keys, passwords and the files that hold them
  | "encoded_text" // text that must be decoded before it can be read
  | "hidden_tail" // text so far away that a person does not scroll there
  | "other_tools" // instructions about tools of other servers
  | "shadowing"; // a name that is mistaken for another tool's

/** A `serious` finding withholds the definition until a person has looked at it. A `mild` one only marks it. */
export type FindingSeverity = "serious" | "mild";

/** A suspicious place in a definition. It proves nothing; a person should look at it. */
export interface ScanFinding {
  readonly kind: FindingKind;
  readonly severity: FindingSeverity;
  readonly where: string;
  readonly excerpt: string;
}

export interface TextFinding extends Pick<ScanFinding, "kind" | "severity"> {
  readonly from: number;
  readonly to: number;
}

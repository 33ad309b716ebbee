/** For arguments that their schema refuses. */
export const FIT_HINT = "Call it again with arguments that fit input_schema; example shows the shortest ones that do.";

/** How a surface names a step that a hint suggests. Undefined: the step is not possible there. */
export type HintWords = (step: string) => string | undefined;

/** A step in a hint: `{search}`, an action such as `{infospace__load}`, or a command such as `{qm servers list}`. */
const STEP = /\{(search|list|user|approve [\w-]+|qm [^{}]{1,300}|[a-z][\w.-]{0,64}?__[^{}\s"]{1,256})\}/g;
const SENTENCE_END = /(?<=[.!?])\s+/;
const noWords: HintWords = () => undefined;

/**
 * Fills in the steps of a hint. Leaves out each sentence with a step that is not possible, so advice that does not need the
 * step is written as a sentence of its own. Undefined if no sentence is left.
 */
export function renderHint(hint: string, words: HintWords = noWords): string | undefined {
  const sentences = hint.split(SENTENCE_END).flatMap((sentence) => {
    let isPossible = true;
    const filled = sentence.replace(STEP, (_, step: string) => {
      const word = words(step);
      if (word === undefined) isPossible = false;
      return word ?? "";
    });
    return isPossible ? [filled] : [];
  });
  return sentences.length === 0 ? undefined : sentences.join(" ");
}

/** The tools, commands or methods that find actions, by surface. */
const FINDERS: ReadonlyMap<string, Readonly<{ search?: string; list?: string }>> = new Map([
  ["universal", { search: "search_actions", list: "list_actions" }],
  ["deferred", { search: "tool_search" }],
  ["cli", { search: "`qm search`", list: "`qm list`" }],
  ["library", { search: "qm.search()", list: "qm.list()" }],
]);
const MODEL_SURFACES: readonly string[] = ["universal", "deferred", "flat", "mcp"];

/** Creates the words for a call through `via`. They name no command to a model, and no action that the caller cannot see. */
export function createHintWords(via: string, sees: (action: string) => boolean, canSearch: boolean): HintWords {
  return (step) => {
    const finders = FINDERS.get(via);
    if (step === "search") return canSearch ? finders?.search : undefined;
    if (step === "list") return finders?.list;
    if (step === "user") return MODEL_SURFACES.includes(via) ? "the user" : undefined;
    if (step.startsWith("approve ")) return formatApproval(via, step.slice("approve ".length));
    if (step.startsWith("qm ")) return via === "cli" ? `\`${step}\`` : undefined;
    // A client of passed-through tools has no other actions.
    return via !== "mcp" && isVisible(step) ? step : undefined;
  };

  function isVisible(action: string): boolean {
    try {
      return sees(action);
    } catch {
      // The caller's actor may no longer exist.
      return false;
    }
  }
}

function formatApproval(via: string, id: string): string | undefined {
  if (via === "cli") return `\`qm approvals approve ${id}\``;
  return via === "library" ? `qm.approvals.answer("${id}", { decision: "approved" }, approver)` : undefined;
}

/** Words at a terminal, outside of calls. */
export const cliHintWords: HintWords = createHintWords("cli", () => true, true);

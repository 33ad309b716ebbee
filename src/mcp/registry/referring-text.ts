import { QmError } from "../../core/errors.ts";
import { quoted } from "../../core/names.ts";

/** Text with references apart from what it says itself, so that neither can be made into the other. */
export type ReferringText = readonly (string | Reference)[];

/** `env:NAME` or `secret:NAME`. */
export interface Reference {
  readonly reference: string;
}

// As the configuration reads it: an escape, a reference, or a `${` that is neither.
const TOKEN = /\$\$\{|\$\{((?:env|secret):[A-Za-z_][A-Za-z0-9_]*)\}|\$\{/g;

/** A text that somebody gave as an input, where `${env:NAME}` and `${secret:NAME}` are references. */
export function givenText(text: string, key: string): ReferringText {
  const parts: (string | Reference)[] = [];
  let end = 0;
  for (const token of text.matchAll(TOKEN)) {
    parts.push(text.slice(end, token.index));
    end = token.index + token[0].length;
    if (token[1] !== undefined) parts.push({ reference: token[1] });
    else if (token[0] === "$${") parts.push("${");
    else {
      throw new QmError("invalid_arguments", `${key}: a "\${" in it is no reference`, {
        hint: `Write \${secret:NAME} or \${env:NAME}, or "$\${" for the text itself.`,
      });
    }
  }
  return [...parts, text.slice(end)];
}

/** Text of a publisher, or of anybody else who may refer to nothing here. */
export function literalText(text: string): ReferringText {
  return [text];
}

/** The text in which `{name}` is replaced by what `lookUp` answers; undefined leaves it as it is. */
export function filledText(
  template: string,
  lookUp: (name: string) => ReferringText | undefined,
  pattern = CURLY,
): ReferringText {
  const parts: (string | Reference)[] = [];
  let end = 0;
  for (const token of template.matchAll(pattern)) {
    const value = lookUp(token[1] ?? "");
    if (value === undefined) continue;
    parts.push(template.slice(end, token.index), ...value);
    end = token.index + token[0].length;
  }
  return [...parts, template.slice(end)];
}

const CURLY = /\{([^{}]{1,100})\}/g;

/** The text as the configuration has it: references as they are, every other `${` escaped. */
export function written(text: ReferringText, key: string): string {
  const parts: (string | Reference)[] = [];
  for (const part of text) {
    const last = parts.at(-1);
    if (typeof part === "string" && typeof last === "string") parts[parts.length - 1] = last + part;
    else parts.push(part);
  }
  return parts
    .map((part, at) => {
      if (typeof part !== "string") return `\${${part.reference}}`;
      if (part.endsWith("$") && at < parts.length - 1) throw dollarBefore(key);
      return part.replaceAll("${", () => "$${");
    })
    .join("");
}

/** What it says itself, without its references. */
export function wordsOf(text: ReferringText): string {
  return text.filter((part) => typeof part === "string").join("");
}

export function hasReference(text: ReferringText): boolean {
  return text.some((part) => typeof part !== "string");
}

function dollarBefore(key: string): QmError {
  return new QmError("invalid_arguments", `${quoted(key)}: there is a $ right before a reference`, {
    hint: "That cannot be written down. Store the whole value, with its $, as one secret.",
  });
}

import { clip } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { getBaseName, getSeparator } from "./client-paths.ts";
import { toSecretName } from "./extract-secrets.ts";

/** An input that VS Code asks the user for. */
export type PromptedInput = { readonly isPassword: boolean; readonly fallback?: string };

export interface TranslationContext {
  readonly forms: readonly VariableForm[];
  readonly home: string;
  /** The project folder. */
  readonly folder: string;
  /** The server's name in the client. */
  readonly server: string;
  readonly inputs: ReadonlyMap<string, PromptedInput>;
  /** Receives notes for the user. */
  readonly note: (text: string) => void;
  /** Receives the reason why the server cannot be imported. */
  readonly reject: (why: string) => void;
}

type TextPiece = { readonly text: string } | { readonly reference: string };

/** `found` is the group of the pattern. `key` is the key of the text. */
type Fill = (found: string, key: string, filling: TranslationContext) => TextPiece;
type VariableSyntax = { readonly pattern: string; readonly fill: Fill };

const NAME = "[A-Za-z_][A-Za-z0-9_]*";
const TEXT_LENGTH_LIMIT = 100_000;
/** The start of a default that contains more than plain text. */
const DEFAULT_LEFT = new RegExp(String.raw`\$\{${NAME}:-`);

const environment: Fill = (name) => ({ reference: `env:${name}` });

/** The variable syntaxes of clients and their translations. */
const forms = {
  /** `${VAR:-default}` */
  "braced-default": {
    pattern: String.raw`\$\{(${NAME}):-[^{}]*\}`,
    fill: (name, _key, { note }) => {
      note(`the default of ${name} was not imported: set the variable`);
      return { reference: `env:${name}` };
    },
  },
  /** `${VAR}` */
  braced: { pattern: String.raw`\$\{(${NAME})\}`, fill: environment },
  /** `$VAR` */
  bare: { pattern: String.raw`\$(${NAME})`, fill: environment },
  /** `${env:VAR}` */
  named: { pattern: String.raw`\$\{env:(${NAME})\}`, fill: environment },
  /** `{env:VAR}` */
  curly: { pattern: String.raw`\{env:(${NAME})\}`, fill: environment },
  /** `{file:path}` */
  "curly-file": {
    pattern: String.raw`\{file:([^{}]+)\}`,
    fill: (path, key, { server, note }) => {
      const secret = toSecretName(server, key);
      // Do not read the file: an untrusted project could name any file of the user.
      note(`${key} is read from the file ${quoteName(path)}: store its content with \`qm secrets set ${secret}\``);
      return { reference: `secret:${secret}` };
    },
  },
  /** `${input:id}` */
  input: { pattern: String.raw`\$\{input:([^{}]+)\}`, fill: (id, _key, filling) => translateInput(id, filling) },
  /** `${workspaceFolder}` and similar. */
  place: {
    pattern: String.raw`\$\{(workspaceFolder|workspaceFolderBasename|userHome|pathSeparator|/)\}`,
    fill: (place, _key, filling) => ({ text: resolvePlaceholder(place, filling) }),
  },
} as const satisfies Record<string, VariableSyntax>;

export type VariableForm = keyof typeof forms;

/**
 * Turns a client's variables into references, and escapes text that only looks like one. `key` is the key of the text.
 */
export function translateVariables(value: string, key: string, filling: TranslationContext): string {
  if (value.length > TEXT_LENGTH_LIMIT) {
    filling.reject(`${clip(key, 80)} is longer than ${TEXT_LENGTH_LIMIT} characters`);
    return "";
  }
  let text = "";
  for (const piece of splitPieces(value, key, filling)) {
    if ("text" in piece && filling.forms.includes("braced-default") && DEFAULT_LEFT.test(piece.text))
      filling.reject(`${key} has a variable in a default, which is not supported`);
    if ("text" in piece) text += escapeReferences(piece.text);
    // `$${` would be read as an escape.
    else if (text.endsWith("$")) filling.reject(`${key} has a $ directly before a variable, which is not supported`);
    else text += `\${${piece.reference}}`;
  }
  return text;
}

export const escapeReferences = (text: string): string => text.replaceAll("${", () => "$${");

function splitPieces(value: string, key: string, filling: TranslationContext): readonly TextPiece[] {
  const known: readonly VariableSyntax[] = filling.forms.map((form) => forms[form]);
  if (known.length === 0) return [{ text: value }];
  const pieces: TextPiece[] = [];
  let end = 0;
  for (const match of value.matchAll(new RegExp(known.map(({ pattern }) => `(${pattern})`).join("|"), "g"))) {
    // Every form has one outer and one inner group.
    const at = known.findIndex((_, index) => match[index * 2 + 1] !== undefined);
    const piece = known[at]?.fill(match[at * 2 + 2] ?? "", key, filling);
    if (piece === undefined) continue;
    pieces.push({ text: value.slice(end, match.index) }, piece);
    end = match.index + match[0].length;
  }
  // Join adjacent texts, so that a `${` across two of them is found.
  const all: TextPiece[] = [];
  for (const piece of [...pieces, { text: value.slice(end) }]) {
    const last = all.at(-1);
    if (last !== undefined && "text" in last && "text" in piece) all[all.length - 1] = { text: last.text + piece.text };
    else all.push(piece);
  }
  return all;
}

function translateInput(id: string, { inputs, note }: TranslationContext): TextPiece {
  const input = inputs.get(id);
  if (input !== undefined && !input.isPassword && input.fallback !== undefined) {
    note(`VS Code asks for ${quoteName(id)}; its default was used`);
    return { text: input.fallback };
  }
  const secret = toSecretName("", id);
  note(`VS Code asks for ${quoteName(id)}: store the answer with \`qm secrets set ${secret}\``);
  return { reference: `secret:${secret}` };
}

function resolvePlaceholder(place: string, { home, folder, note }: TranslationContext): string {
  if (place === "userHome") return home;
  if (place === "pathSeparator" || place === "/") return getSeparator(home);
  note(`\${${place}} was replaced by this folder`);
  return place === "workspaceFolder" ? folder : getBaseName(folder);
}

import { clip } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { getBaseName, getSeparator } from "./client-paths.ts";
import { toSecretName } from "./extract-secrets.ts";

/** What VS Code asks a user for: `default` stands where there is one. */
export interface PromptedInput {
  readonly isPassword: boolean;
  readonly fallback?: string;
}

/** What is needed to put a client's text into our words, and where to say what there is to say about it. */
export interface TranslationContext {
  readonly forms: readonly VariableForm[];
  readonly home: string;
  /** The project's folder. */
  readonly folder: string;
  /** What the client calls the server. */
  readonly server: string;
  readonly inputs: ReadonlyMap<string, PromptedInput>;
  /** Told what whoever imports should know. */
  readonly note: (text: string) => void;
  /** Told why the server cannot be brought along. */
  readonly reject: (why: string) => void;
}

/** A piece of text as it is, or a reference in our words. */
type TextPiece = { readonly text: string } | { readonly reference: string };

interface VariableSyntax {
  readonly pattern: string;
  /** `found` are the groups of the pattern, `key` is what the text is the value of. */
  readonly fill: (found: readonly string[], key: string, filling: TranslationContext) => TextPiece;
}

const NAME = "[A-Za-z_][A-Za-z0-9_]*";
const TEXT_LENGTH_LIMIT = 100_000;
/** The beginning of a default that was not read, because there is more in it than text. */
const DEFAULT_LEFT = new RegExp(String.raw`\$\{${NAME}:-`);

const environment: VariableSyntax["fill"] = ([name = ""]) => ({ reference: `env:${name}` });

/** The ways in which clients write variables, and what each becomes. */
const forms = {
  /** `${VAR:-default}` */
  "braced-default": {
    pattern: String.raw`\$\{(${NAME}):-[^{}]*\}`,
    fill: ([name = ""], _key, { note }) => {
      note(`the default of ${name} was left out: set the variable itself`);
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
    fill: ([path = ""], key, { server, note }) => {
      const secret = toSecretName(server, key);
      // It is not read here: a file that somebody else wrote could name any file of this user.
      note(`${key} came out of the file ${quoteName(path)}: \`qm secrets set ${secret}\` stores what is in it`);
      return { reference: `secret:${secret}` };
    },
  },
  /** `${input:id}` */
  input: { pattern: String.raw`\$\{input:([^{}]+)\}`, fill: ([id = ""], _key, filling) => translateInput(id, filling) },
  /** `${workspaceFolder}` and its like. */
  place: {
    pattern: String.raw`\$\{(workspaceFolder|workspaceFolderBasename|userHome|pathSeparator|/)\}`,
    fill: ([place = ""], _key, filling) => ({ text: resolvePlaceholder(place, filling) }),
  },
} as const satisfies Record<string, VariableSyntax>;

export type VariableForm = keyof typeof forms;

/**
 * A text of a client in our words: its variables are references, and what merely looks like one is escaped. `key` is
 * what it is the value of.
 */
export function translateVariables(value: string, key: string, filling: TranslationContext): string {
  if (value.length > TEXT_LENGTH_LIMIT) {
    filling.reject(`${clip(key, 80)} is longer than ${TEXT_LENGTH_LIMIT} characters`);
    return "";
  }
  let text = "";
  for (const piece of splitPieces(value, key, filling)) {
    if ("text" in piece && filling.forms.includes("braced-default") && DEFAULT_LEFT.test(piece.text))
      filling.reject(`${key} has a variable in a default, which cannot be written here`);
    if ("text" in piece) text += escapeReferences(piece.text);
    // `$${` would be read as an escape, so there is no way to write this.
    else if (text.endsWith("$")) filling.reject(`${key} has a $ right before a variable, which cannot be written here`);
    else text += `\${${piece.reference}}`;
  }
  return text;
}

/** A text of which nothing is to be read as a reference. */
export function escapeReferences(text: string): string {
  return text.replaceAll("${", () => "$${");
}

function splitPieces(value: string, key: string, filling: TranslationContext): readonly TextPiece[] {
  const known: readonly VariableSyntax[] = filling.forms.map((form) => forms[form]);
  if (known.length === 0) return [{ text: value }];
  const pieces: TextPiece[] = [];
  let end = 0;
  for (const match of value.matchAll(new RegExp(known.map(({ pattern }) => `(${pattern})`).join("|"), "g"))) {
    // Every form has one group around it and one inside.
    const at = known.findIndex((_, index) => match[index * 2 + 1] !== undefined);
    const piece = known[at]?.fill([match[at * 2 + 2] ?? ""], key, filling);
    if (piece === undefined) continue;
    pieces.push({ text: value.slice(end, match.index) }, piece);
    end = match.index + match[0].length;
  }
  return mergePieces([...pieces, { text: value.slice(end) }]);
}

/** Texts side by side are one, so that a `${` that only the two of them make is seen. */
function mergePieces(pieces: readonly TextPiece[]): readonly TextPiece[] {
  const all: TextPiece[] = [];
  for (const piece of pieces) {
    const last = all.at(-1);
    if (last !== undefined && "text" in last && "text" in piece) all[all.length - 1] = { text: last.text + piece.text };
    else all.push(piece);
  }
  return all;
}

function translateInput(id: string, { inputs, note }: TranslationContext): TextPiece {
  const input = inputs.get(id);
  if (input !== undefined && !input.isPassword && input.fallback !== undefined) {
    note(`VS Code asks for ${quoteName(id)}; its default was taken`);
    return { text: input.fallback };
  }
  const secret = toSecretName("", id);
  note(`VS Code asks for ${quoteName(id)}: \`qm secrets set ${secret}\` stores the answer`);
  return { reference: `secret:${secret}` };
}

function resolvePlaceholder(place: string, { home, folder, note }: TranslationContext): string {
  if (place === "userHome") return home;
  if (place === "pathSeparator" || place === "/") return getSeparator(home);
  note(`\${${place}} was filled with this folder`);
  return place === "workspaceFolder" ? folder : getBaseName(folder);
}

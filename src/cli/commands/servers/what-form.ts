import { QmError } from "../../../core/errors.ts";
import { quoted } from "../../../core/names.ts";
import type { AddOptions } from "./install-call.ts";

/** What kind of thing was typed as the server to add. */
export type Form = "npm" | "pypi" | "docker" | "github" | "registry" | "url" | "command";

const FORMS =
  "npm:<package>[@version], pypi:<package>[@version], docker:<image:tag>, registry:<id>[@version], a GitHub URL, the http or https URL of a server, or a command";

const PREFIXED = /^(npm|pypi|docker|registry):(.+)$/;

/** The form, and what is behind its prefix. Throws `invalid_arguments` for a form that nobody knows. */
export function formOf(what: string): { readonly form: Form; readonly rest: string } {
  const [, prefix, rest = ""] = PREFIXED.exec(what) ?? [];
  if (prefix !== undefined) return { form: prefix as Form, rest };
  if (/^https:\/\/github\.com\//.test(what)) return { form: "github", rest: what };
  if (/^https?:\/\//i.test(what)) return { form: "url", rest: what };
  // A single letter is a drive.
  if (/^[a-z][a-z0-9+.-]+:/i.test(what))
    throw new QmError("invalid_arguments", `${quoted(what)} has no form that is known here`, {
      hint: `Give one of: ${FORMS}.`,
    });
  return { form: "command", rest: what };
}

const PACKAGES: readonly Form[] = ["npm", "pypi", "docker", "github"];

/** Which forms an option means something to. */
const meaning: Readonly<Record<"env" | "header" | "input" | "choose" | "cwd", readonly Form[]>> = {
  env: [...PACKAGES, "registry", "command"],
  header: ["url"],
  input: ["registry"],
  choose: ["registry"],
  cwd: ["command"],
};

const title: Readonly<Record<Form, string>> = {
  npm: "a package",
  pypi: "a package",
  docker: "an image",
  github: "a repository",
  registry: "a server of the registry",
  url: "the URL of a server",
  command: "a command",
};

/** What would be left out in silence is refused. Throws `invalid_arguments`. */
export function requireFitting(form: Form, given: readonly string[], options: AddOptions): void {
  for (const [option, forms] of Object.entries(meaning) as readonly [keyof typeof meaning, readonly Form[]][]) {
    if (options[option] === undefined || forms.includes(form)) continue;
    const where = forms.length > 1 ? "whatever is started here" : title[forms[0] ?? form];
    throw new QmError("invalid_arguments", `--${option} means nothing with ${title[form]}`, {
      hint: `It is for ${where}. Leave it out.`,
    });
  }
  if (given.length > 0 && (form === "url" || form === "registry"))
    throw new QmError("invalid_arguments", `${title[form]} takes no arguments`, {
      hint: form === "registry" ? "Give what it asks for with --input <name=value>." : "Leave them out.",
    });
}

import { isAbsolute, resolve } from "node:path";
import { QmError } from "../../core/errors.ts";
import { quoted } from "../../core/names.ts";
import type { ArgumentForms } from "../../core/normalize.ts";
import type { Launch, ToolOverride } from "../server-spec.ts";

/** The normal forms of a tool's arguments, as the configuration declares them. */
export function serverForms(declared: NonNullable<ToolOverride["arguments"]>, launch: Launch): ArgumentForms {
  const folder = launch.kind === "stdio" ? launch.cwd : undefined;
  const forms = Object.entries(declared).map(([argument, form]) => [
    argument,
    form === "file" ? (path: string) => absolutePath(path, argument, folder) : form,
  ]);
  return Object.freeze(Object.fromEntries(forms));
}

function absolutePath(path: string, argument: string, folder: string | undefined): string {
  const refuse = (why: string, hint: string) =>
    new QmError("path_refused", `${argument} (${quoted(path)}) ${why}`, { hint });
  if (path.includes("\0")) throw refuse("holds a NUL character", "Leave it out.");
  if (path.startsWith("~")) throw refuse("starts with ~, which stands for nothing here", "Give an absolute path.");
  // Where a reference is in the folder, or the server is elsewhere, nobody here knows what a relative path means.
  const isKnown = folder !== undefined && !folder.includes("${");
  if (!isKnown && !isAbsolute(path)) throw refuse("is relative, and to what is not known", "Give an absolute path.");
  return resolve(folder ?? "/", path);
}

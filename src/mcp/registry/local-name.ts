import { QmError } from "../../core/errors.ts";
import { quoted } from "../../core/names.ts";

const LIMIT = 40;
// As the configuration has it: no `__`, because the part of an action's name before the tool must have one reading.
const NAME = /^[a-z0-9]+(?:[-_][a-z0-9]+)*$/;

// Nearly every server's name says that it is one.
const FILLER = /^(?:mcp-)?server[-_]|^mcp[-_]|[-_](?:mcp[-_])?server$|[-_]mcp$/;

/** What a server is called here, made from the last part of its full name: `io.github.x/Airtable.MCP` → `airtable`. */
export function localName(fullName: string): string {
  const last = fullName.split("/").findLast((part) => part !== "") ?? "";
  const plain = last
    .normalize("NFKD")
    .toLowerCase()
    .replace(/[^a-z0-9_-]+/g, "-")
    .replace(/[-_]{2,}/g, "-")
    .slice(0, LIMIT)
    .replace(/^[-_]+|[-_]+$/g, "");
  const name = plain.replace(FILLER, "") || plain;
  return name === "" ? "server" : name;
}

/** A name that somebody chose, or `invalid_arguments`. */
export function chosenName(name: string): string {
  if (name.length <= LIMIT && NAME.test(name)) return name;
  throw new QmError("invalid_arguments", `${quoted(name)} cannot be the name of a server`, {
    hint: `Use lower-case letters and digits, with single - or _ between them, at most ${LIMIT}, as in \`github\`.`,
  });
}

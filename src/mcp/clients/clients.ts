import { QmError } from "../../core/errors.ts";
import { quoted } from "../../core/names.ts";
import { claudeCode } from "./claude-code.ts";
import { claudeDesktop } from "./claude-desktop.ts";
import type { Client } from "./client.ts";
import { cline } from "./cline.ts";
import { codex } from "./codex.ts";
import { cursor } from "./cursor.ts";
import { gemini } from "./gemini.ts";
import { opencode } from "./opencode.ts";
import { vscode } from "./vscode.ts";
import { windsurf } from "./windsurf.ts";
import { zed } from "./zed.ts";

/** In the order in which they are read: of servers that are the same, the first one's words are kept. */
export const clients: readonly Client[] = [
  claudeCode,
  claudeDesktop,
  cline,
  codex,
  cursor,
  gemini,
  opencode,
  vscode,
  windsurf,
  zed,
];

/** Throws `invalid_arguments`, with the names there are. */
export function clientNamed(name: string): Client {
  const found = clients.find((client) => client.name === name);
  if (found !== undefined) return found;
  throw new QmError("invalid_arguments", `${quoted(name)} is no client that is known here`, {
    details: { valid: clients.map((client) => client.name) },
  });
}

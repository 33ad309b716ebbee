import { QmError } from "../../core/errors.ts";
import { quoted } from "../../core/names.ts";
import { DUPLICATE } from "./judge.ts";
import type { WithheldTool } from "./known-tools.ts";
import type { Pin, RecordChange, ServerRecord } from "./manifest-store.ts";

/** Stands for every tool of a server of which a definition waits. */
const ALL_TOOLS = "*";

/** A person's word, and what it is about. */
export interface Decision {
  readonly server: string;
  /** A name, or `*`. */
  readonly tool: string;
  /** Of the definition that was looked at. Absent: the one that was shown last. */
  readonly hash?: string | undefined;
  readonly state: "accepted" | "rejected";
  readonly by: string;
  readonly at: Date;
}

/** Finds what a person meant among what waits and what was rejected. Throws `not_found`, `conflict`. */
export function meant(
  { server, tool, hash, state }: Decision,
  { withheld, rejected }: { readonly withheld: readonly WithheldTool[]; readonly rejected: readonly WithheldTool[] },
): readonly WithheldTool[] {
  const canBe = (pending: WithheldTool): boolean => state === "rejected" || !pending.reasons.includes(DUPLICATE);
  if (tool === ALL_TOOLS) return withheld.filter(canBe);
  const named = [...withheld, ...(state === "accepted" ? rejected : [])].filter((pending) => pending.tool === tool);
  if (named.length === 0) {
    throw new QmError("not_found", `no definition of ${quoted(tool)} of ${server} is withheld`, {
      hint: "Look at what is withheld now, and name a tool of it.",
    });
  }
  const shown = named.filter((pending) => hash === undefined || pending.hash === hash);
  if (shown.length === 0) {
    throw new QmError("conflict", `${server} offers another definition of ${quoted(tool)} than the one meant`, {
      hint: "Nothing was decided. Look at the definition that is withheld now.",
    });
  }
  if (!shown.every(canBe)) {
    throw new QmError("conflict", `${server} offers several tools named ${quoted(tool)}`, {
      hint: "Nobody can tell which of them a call would reach. Only the author of the server can change that.",
    });
  }
  return shown;
}

/** What a decision makes of a record. Throws `conflict` where somebody else has decided otherwise meanwhile. */
export function decided(
  record: ServerRecord | undefined,
  { server, state, by, at }: Decision,
  tools: readonly WithheldTool[],
): RecordChange {
  const before = new Map(record?.pins.map((pin) => [pin.hash, pin]));
  for (const tool of tools) {
    const now = record === undefined ? "forgotten" : (before.get(tool.hash)?.state ?? tool.state);
    if (now === tool.state) continue;
    throw new QmError("conflict", `${quoted(tool.tool)} of ${server} was ${now} meanwhile`, {
      hint: "Nothing was decided. Look at what is withheld now.",
    });
  }
  const put = tools.map(({ hash, definition, reasons, signs }): Pin => {
    const marks = [...new Set(signs.map(({ kind }) => kind))];
    return { hash, definition, reasons, marks, state, seenAt: before.get(hash)?.seenAt ?? at, by };
  });
  const names = new Set(tools.map(({ tool }) => tool));
  const replaced = (record?.pins ?? []).filter((pin) => pin.state === "accepted" && names.has(pin.definition.name));
  return { put, drop: state === "accepted" ? replaced.map(({ hash }) => hash) : [] };
}

import type { Reach } from "../../../infospace/note.ts";
import type { Workspace } from "../../../workspace.ts";
import type { Context } from "../../context.ts";
import { oneLine } from "../../text.ts";
import { reachText, whatText } from "./words.ts";

export interface SaveFlags {
  readonly name?: string;
  readonly reach?: Reach;
}

export async function saveNote(
  { out }: Context,
  { quartermaster: { notes } }: Workspace,
  handle: string,
  { name, reach }: SaveFlags,
): Promise<void> {
  const how = { ...(name === undefined ? {} : { name }), ...(reach === undefined ? {} : { reach }) };
  const saved = await notes.save(handle, how);
  if (out.isJson) return out.json(saved);
  const called = saved.name === undefined ? "" : ` ${JSON.stringify(saved.name)}`;
  out.line(oneLine(`${saved.handle}${called} (${whatText(saved)}) is kept for good, for ${reachText(saved)}.`));
}

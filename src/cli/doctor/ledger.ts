import { messageOf, QmError } from "../../core/errors.ts";
import type { ChainReport } from "../../ledger/verify.ts";
import { openWorkspace, type WorkspaceOptions } from "../../workspace.ts";
import { counted } from "../text.ts";
import { type Check, fail, ok } from "./check.ts";

export async function checkLedger(options: WorkspaceOptions): Promise<Check> {
  try {
    const workspace = await openWorkspace({ ...options, purpose: "ledger" });
    const report = await workspace.quartermaster.ledger.verify().finally(() => workspace.close());
    return checkOf(report);
  } catch (thrown) {
    const hint = thrown instanceof QmError ? thrown.hint : undefined;
    return fail("ledger", messageOf(thrown), hint ?? "Look at the file at store.path.");
  }
}

function checkOf({ sessions, events, broken }: ChainReport): Check {
  const [first] = broken;
  if (first === undefined)
    return ok(
      "ledger",
      events === 0 ? "empty" : `${counted(events, "event")} in ${counted(sessions, "session")}, whole`,
    );
  return fail(
    "ledger",
    `${counted(broken.length, "break")}, first in session ${first.session}: ${first.message}`,
    "Somebody changed the store. `qm events verify` shows every line; restore it from a backup.",
  );
}

import type { ShownApproval } from "../../../approval/approval.ts";
import type { Approvals } from "../../../approval/approvals.ts";
import { QmError } from "../../../core/errors.ts";
import { quoted } from "../../../core/names.ts";

const WHOLE = 36;
const SHORTEST = 6;
const PAGE = 1_000;

/** The one approval with that id, or whose id begins like that. Throws `not_found`, and where there are several. */
export async function findApproval(approvals: Approvals, text: string): Promise<ShownApproval> {
  if (text.length >= WHOLE) return approvals.get(text);
  if (text.length < SHORTEST)
    throw new QmError("invalid_arguments", `${quoted(text)} is too short to tell approvals apart`, {
      hint: `Give at least ${SHORTEST} characters of the id.`,
    });
  const found: ShownApproval[] = [];
  for await (const approval of every(approvals)) if (approval.id.startsWith(text)) found.push(approval);
  const [one, another] = found;
  if (one === undefined)
    throw new QmError("not_found", `no approval begins with ${quoted(text)}`, {
      hint: "`qm approvals list --all` shows what there is.",
    });
  if (another === undefined) return approvals.get(one.id);
  throw new QmError("invalid_arguments", `the ids of ${found.length} approvals begin with ${quoted(text)}`, {
    details: { suggestions: found.slice(-5).map(({ id }) => id) },
    hint: "Give more of the id.",
  });
}

async function* every(approvals: Approvals): AsyncGenerator<ShownApproval> {
  let after: string | undefined;
  for (;;) {
    const page = await approvals.list({ limit: PAGE, ...(after === undefined ? {} : { after }) });
    yield* page;
    if (page.length < PAGE) return;
    after = page.at(-1)?.id;
  }
}

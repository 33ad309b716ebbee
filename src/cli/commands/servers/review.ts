import type { Command } from "commander";
import { escapeUnsafe, formatCount } from "../../../core/display-text.ts";
import { QmError } from "../../../core/errors.ts";
import { toHexDigest } from "../../../core/file-digest.ts";
import { getOwn } from "../../../core/json.ts";
import { quoteName } from "../../../core/names.ts";
import { didYouMean } from "../../../core/nearest.ts";
import type { WithheldTool } from "../../../mcp/manifests/known-tools.ts";
import type { FindingKind } from "../../../mcp/manifests/scan/finding.ts";
import type { Workspace } from "../../../workspace/workspace.ts";
import { identifyApprover, requireApproval, requireYes } from "../../approver.ts";
import { type Context, inWorkspace } from "../../context.ts";
import { createUsageError } from "../../exit-codes.ts";
import { examples } from "../../option-parsers.ts";
import { requireServer } from "./connection.ts";

type ReviewOptions = { readonly accept?: boolean; readonly reject?: boolean; readonly yes?: boolean };

export function addServersReviewCommand(servers: Command, context: Context): void {
  servers
    .command("review")
    .summary("review withheld tool definitions, and accept or reject them")
    .description(
      "Show the tool definitions that a server has changed or added since a person last accepted them, and those that look like instructions to the model.",
    )
    .argument("[name]", "only this server")
    .argument("[tool]", "only this tool")
    .option("--accept", "accept the definitions that are shown")
    .option("--reject", "reject the definitions that are shown; they can still be accepted by name")
    .option("-y, --yes", "do not ask; to accept, only with an approver's token in QM_APPROVER_TOKEN")
    .addHelpText(
      ...examples(
        "qm servers review",
        "qm servers review github --accept",
        "qm servers review github create_issue --accept --yes",
      ),
    )
    .action(inWorkspace(context, "calls", runServersReview));
}

async function runServersReview(
  context: Context,
  workspace: Workspace,
  name: string | undefined,
  tool: string | undefined,
  { accept, reject, yes }: ReviewOptions,
): Promise<void> {
  const { out } = context;
  const { servers } = workspace;
  const { manifests } = servers;
  if (accept && reject) throw createUsageError("--accept and --reject contradict each other", "Give one of them.");
  const names = name === undefined ? servers.list().map(({ spec }) => spec.name) : [requireServer(servers, name).name];
  if (name !== undefined && tool !== undefined) requireTool(servers, name, tool);
  const waiting = names.flatMap((server) =>
    // Rejected tools are shown only if they are named.
    [...manifests.withheld(server), ...(tool === undefined ? [] : manifests.rejected(server))]
      .filter((each) => tool === undefined || each.tool === tool)
      .map((each) => ({ server, ...each })),
  );
  const { formatDefinitionDiff } = await import("../../../mcp/manifests/definition-diff.ts");
  if (!out.isJson || accept)
    for (const each of waiting) {
      showWithheld(context, each, formatDefinitionDiff(each.accepted, each.definition));
      if (accept) await showSkillFiles(context, servers, each, yes);
    }
  const amount = formatCount(waiting.length, "definition");
  const result = accept ? "accepted" : reject ? "rejected" : "withheld";
  const isDecided = waiting.length > 0 && result !== "withheld";
  if (isDecided) {
    const person = await identifyApprover(context, workspace);
    const confirmation = { question: `${accept ? "Accept" : "Reject"} ${amount}?`, done: result, yes };
    if (accept) await requireApproval(context, person, confirmation);
    else await requireYes(context, confirmation);
    for (const { server, tool, hash } of waiting)
      await manifests[accept ? "accept" : "reject"](server, tool, person.id, hash);
  }
  if (out.isJson) return out.json({ [result]: waiting });
  if (waiting.length === 0) return out.line("Nothing is withheld.");
  out.line(isDecided ? `${amount} ${result}.` : `${amount} withheld. Give --accept or --reject to decide.`);
}

/** Reads a skill from its server, shows its files, and stores them to compare a later version with them. */
async function showSkillFiles(
  context: Context,
  { hub, manifests }: Workspace["servers"],
  { server, definition: { skill }, accepted }: WithheldTool & { readonly server: string },
  yes: boolean | undefined,
): Promise<void> {
  if (skill === undefined || skill.resources === "dynamic") return;
  const { readSkillFiles } = await import("../../../mcp/provider/skill-files.ts");
  const { listSkillFiles } = await import("../../../mcp/manifests/offered-skill.ts");
  const { comparePages, showFilesToApprover } = await import("../../file-pages.ts");
  const files = await readSkillFiles(hub, server, skill, { signal: context.io.signal });
  const trusted = new Map<string, Uint8Array>();
  for (const [path, { digest = "" }] of accepted?.skill === undefined ? [] : listSkillFiles(accepted.skill)) {
    const bytes = await manifests.getContent(toHexDigest(digest));
    if (bytes !== undefined) trusted.set(path, bytes);
  }
  await showFilesToApprover(context, comparePages(files, trusted), yes);
  await manifests.addContents(files);
}

function requireTool({ manifests }: Workspace["servers"], server: string, tool: string): void {
  const names = [
    ...manifests.tools(server).map(({ definition }) => definition.name),
    ...[...manifests.withheld(server), ...manifests.rejected(server)].map((each) => each.tool),
  ];
  if (names.includes(tool)) return;
  if (manifests.offer(server) === undefined)
    throw new QmError("not_found", `the tools of ${server} are not known yet`, {
      hint: `Run \`qm servers start ${server}\` to read them.`,
    });
  const hint = `\`qm servers review ${server}\` shows the withheld ones.`;
  throw new QmError("not_found", `${server} has no tool ${quoteName(tool)}${didYouMean(tool, names)}`, { hint });
}

const findingTexts: Readonly<Record<FindingKind, string>> = {
  hidden_characters: "it holds invisible characters",
  disguised_letters: "it holds letters that look like other letters",
  instructions: "it gives instructions to the model",
  concealment: "it asks to keep something from you",
  prompt_imitation: "it imitates the markup of prompts",
  exfiltration: "it asks to send data somewhere",
  secrets: "it asks for keys, passwords or the files that hold them",
  encoded_text: "it holds encoded text",
  hidden_tail: "it holds text far out of sight",
  other_tools: "it gives instructions about tools of other servers",
  shadowing: "its name can be mistaken for another tool",
};

const reasonTexts = {
  changed: "its definition has changed since it was accepted",
  new: "it was added after the server was accepted",
  duplicate: "the server offers several tools with this name, so a call could reach either",
};

function showWithheld({ out }: Context, withheld: WithheldTool & { server: string }, difference: readonly string[]) {
  const { server, tool, reasons, signs } = withheld;
  const line = out.isJson ? out.note : out.line;
  line(out.bold(`${server}: ${escapeUnsafe(tool)}`));
  for (const reason of reasons) {
    const text = getOwn<string>({ ...reasonTexts, ...findingTexts }, reason) ?? reason;
    line(`  ${out.warn(escapeUnsafe(text))}`);
  }
  for (const { kind, where, excerpt } of signs)
    line(`  ${out.bad(findingTexts[kind])}, at ${escapeUnsafe(where)}: ${escapeUnsafe(excerpt)}`);
  for (const changed of difference) line(`  ${changed}`);
  line("");
}

import type { Command } from "commander";
import type { PeerView } from "../../app/peer-system.ts";
import { escapeUnsafe } from "../../core/display-text.ts";
import { omitUndefined } from "../../core/json.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type Context, inWorkspace, reportNotFound } from "../context.ts";
import { examples } from "../option-parsers.ts";
import { showProgress } from "../terminal.ts";

export function addPeersCommand(program: Command, context: Context): void {
  const peers = program
    .command("peers")
    .helpCommand(false)
    .summary("list and show the agents that work can be delegated to")
    .description(
      "Look at the agents that work can be delegated to: those of `peers` in the configuration, and actors of this configuration that have a model, instructions or a description.",
    )
    .addHelpText(...examples("qm peers list", "qm peers list --check", "qm peers show research --json"));

  peers
    .command("list")
    .summary("list the peers")
    .description("List the peers. None is contacted without --check.")
    .option("--check", "ask each remote peer for its card")
    .addHelpText(...examples("qm peers list --check"))
    .action(inWorkspace(context, "looking", listPeers));

  peers
    .command("show")
    .summary("show the card and the skills of a peer")
    .description("Ask a remote peer for its card, and show it. Its texts are the peer's own: no model sees them.")
    .argument("<name>", "the name of the peer")
    .addHelpText(...examples("qm peers show research"))
    .action(inWorkspace(context, "looking", showPeer));
}

async function listPeers(
  { out, io }: Context,
  { quartermaster }: Workspace,
  { check = false }: { readonly check?: boolean },
): Promise<void> {
  const { peers } = quartermaster;
  if (check) {
    const stopProgress = showProgress(io.stderr, "the peers");
    const remote = peers.list().filter(({ kind }) => kind === "remote");
    await Promise.all(remote.map(({ name }) => peers.card(name, io.signal).catch(() => {}))).finally(stopProgress);
  }
  const listed = peers.list();
  if (out.isJson || listed.length === 0)
    return out.answer({ peers: listed }, "No peer is configured. Add one under peers in quartermaster.yaml.");
  const rows = listed.map(({ name, kind, url, readiness, reason, description }) => [
    name,
    kind,
    url ?? "-",
    check || readiness !== "ready" || kind === "local" ? (reason ?? readiness) : "not checked",
    description ?? "",
  ]);
  out.table(["name", "kind", "address", "state", "description"], rows);
}

async function showPeer(context: Context, { quartermaster }: Workspace, name: string): Promise<void> {
  const { out, io } = context;
  const { peers } = quartermaster;
  const view = peers.list().find((peer) => peer.name === name);
  if (view?.kind === "local") {
    const text = `${name} is an actor of this configuration. ${view.description ?? ""}`.trimEnd();
    return out.answer(view, text);
  }
  const stopProgress = showProgress(io.stderr, name);
  const card = await reportNotFound(context, () => peers.card(name, io.signal).finally(stopProgress));
  if (card === undefined) return;
  const about = view ?? { name, kind: "remote", readiness: "ready" };
  out.answer({ ...about, card }, formatCard(about, card));
}

function formatCard(
  { name, url }: Omit<PeerView, "readiness">,
  card: Awaited<ReturnType<Workspace["quartermaster"]["peers"]["card"]>>,
): string {
  const skills = card.skills.map(({ id, description }) => `  ${id}: ${description}`);
  const facts = omitUndefined({ address: url, endpoint: card.url, version: card.version });
  return escapeUnsafe(
    [
      `${name}: ${card.name}`,
      card.description,
      ...Object.entries(facts).map(([key, value]) => `${key}: ${value}`),
      `streaming: ${card.streaming ? "yes" : "no"}`,
      skills.length === 0 ? "skills: none" : "skills:",
      ...skills,
    ].join("\n"),
  );
}

import type { Command } from "commander";
import { type Context, callerOf, withWorkspace } from "../../context.ts";
import { exitCodeOfOutcome } from "../../exit-codes.ts";
import { outcomeProblem } from "../../outcome-problem.ts";
import { personAt, requireYes } from "../../person.ts";
import { agreedBy } from "./agreement.ts";

export function addRemove(servers: Command, context: Context): void {
  servers
    .command("remove")
    .summary("stop a server and take it out of the configuration")
    .argument("<name>")
    .option("--keep-secrets", "do not forget the secrets that only this server uses")
    .option("-y, --yes", "do not ask; only with an approver's token in QM_APPROVER_TOKEN")
    .action((name: string, options: { readonly keepSecrets?: boolean; readonly yes?: boolean }) =>
      withWorkspace(context, "calls", async (workspace) => {
        const { quartermaster } = workspace;
        const { io, out, globals } = context;
        const person = await personAt(context, workspace);
        const question = `Remove the server ${name}?`;
        await requireYes(context, person, { question, done: "removed", yes: options.yes });
        const outcome = await quartermaster.invoke(
          "mcp__drop_server",
          { server: name, clear_secrets: options.keepSecrets !== true },
          { caller: callerOf(globals), signal: io.signal, via: "cli", ...agreedBy(person) },
        );
        context.end(exitCodeOfOutcome(outcome, io.signal.aborted));
        if (outcome.status !== "done") return outcomeProblem(out, outcome);
        if (out.isJson) return out.json(outcome.data);
        out.line(`${name} is removed.`);
      }),
    );
}

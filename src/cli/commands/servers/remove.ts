import type { Command } from "commander";
import { confirmed } from "../../ask.ts";
import { type Context, callerOf, withWorkspace } from "../../context.ts";
import { exitCodeOfOutcome } from "../../exit-codes.ts";
import { outcomeProblem } from "../../outcome-problem.ts";
import { personAt } from "../../person.ts";
import { agreedBy, notAgreed } from "./agreement.ts";

export function addRemove(servers: Command, context: Context): void {
  servers
    .command("remove")
    .summary("stop a server and take it out of the configuration")
    .argument("<name>")
    .option("--keep-secrets", "do not forget the secrets that only this server uses")
    .option("-y, --yes", "do not ask")
    .action((name: string, options: { readonly keepSecrets?: boolean; readonly yes?: boolean }) =>
      withWorkspace(context, "calls", async (workspace) => {
        const { quartermaster } = workspace;
        const { io, out, globals } = context;
        const person = personAt(context, workspace);
        if (!options.yes && !(await confirmed(io, `Remove the server ${name}?`))) throw notAgreed("removed");
        const outcome = await quartermaster.invoke(
          "mcp__drop_server",
          { server: name, clear_secrets: options.keepSecrets !== true },
          {
            caller: callerOf(globals),
            signal: io.signal,
            via: "cli",
            // Where a rule asks for a person, --yes alone is none: the call waits like any other.
            ...(options.yes && !person.hasToken ? {} : agreedBy(person)),
          },
        );
        context.end(exitCodeOfOutcome(outcome, io.signal.aborted));
        if (outcome.status !== "done") return outcomeProblem(out, outcome);
        if (out.isJson) return out.json(outcome.data);
        out.line(`${name} is removed.`);
      }),
    );
}

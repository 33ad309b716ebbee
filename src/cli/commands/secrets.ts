import type { Command } from "commander";
import { QmError } from "../../core/errors.ts";
import { secretInput } from "../ask.ts";
import { type Context, withWorkspace } from "../context.ts";
import { examples } from "../options.ts";
import { personAt, requirePresence } from "../person.ts";

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

export function addSecrets(program: Command, context: Context): void {
  const secrets = program
    .command("secrets")
    .helpCommand(false)
    .summary("keep keys of servers out of the configuration")
    .description(`Store values that the configuration refers to as \${secret:NAME}. They are never shown again.`)
    .addHelpText(
      "after",
      examples(
        "qm secrets set GITHUB_TOKEN",
        "op read op://dev/github/token | qm secrets set GITHUB_TOKEN",
        "qm secrets list",
      ),
    );

  secrets
    .command("list")
    .summary("the names of what is stored")
    .action(() =>
      withWorkspace(context, "ledger", async ({ secrets }) => {
        const names = (await secrets.names()).filter((name) => NAME.test(name));
        const { out } = context;
        if (out.isJson) return out.json({ secrets: names });
        if (names.length === 0) return out.line("No secrets are stored. `qm secrets set NAME` stores one.");
        for (const name of names) out.line(name);
      }),
    );

  secrets
    .command("set")
    .summary("store one, typed unseen or from stdin")
    .argument("<name>", "letters, digits and _")
    .action((name: string) =>
      withWorkspace(context, "ledger", async (workspace) => {
        const { secrets, config } = workspace;
        requireName(name);
        const { SECRET, variablesIn } = await import("../../config/references.ts");
        // Whoever could replace an approver's token could approve.
        const tokens = Object.values(config.approvals.approvers).flatMap(({ token = "" }) => variablesIn(token));
        if (tokens.includes(`${SECRET}${name}`)) requirePresence(context, await personAt(context, workspace));
        const value = await secretInput(context.io, name);
        if (value === "")
          throw new QmError("invalid_arguments", "a secret cannot be empty", { hint: "Nothing was stored." });
        await secrets.set(name, value);
        if (context.out.isJson) context.out.json({ stored: name });
        else context.out.line(`Stored. Refer to it as \${secret:${name}}.`);
      }),
    );

  secrets
    .command("remove")
    .summary("forget one")
    .argument("<name>")
    .action((name: string) =>
      withWorkspace(context, "ledger", async ({ secrets }) => {
        requireName(name);
        if (!(await secrets.delete(name)))
          throw new QmError("not_found", `no secret ${name} is stored`, { hint: "`qm secrets list` shows the names." });
        if (context.out.isJson) context.out.json({ removed: name });
        else context.out.line("Removed.");
      }),
    );
}

function requireName(name: string): void {
  if (NAME.test(name)) return;
  throw new QmError("invalid_arguments", `${JSON.stringify(name)} is not the name of a secret`, {
    hint: "Use letters, digits and _, as in GITHUB_TOKEN.",
  });
}

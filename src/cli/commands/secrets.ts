import type { Command } from "commander";
import { QmError } from "../../core/errors.ts";
import { identifyApprover, requirePresence } from "../approver.ts";
import { type Context, withWorkspace } from "../context.ts";
import { createUsageError } from "../exit-codes.ts";
import { examples } from "../option-parsers.ts";
import { readSecret } from "../terminal.ts";

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

export function addSecretsCommand(program: Command, context: Context): void {
  const secrets = program
    .command("secrets")
    .helpCommand(false)
    .summary("store secrets outside of the configuration")
    .description(`Store values that the configuration refers to as \${secret:NAME}. They are never shown again.`)
    .addHelpText(
      ...examples(
        "qm secrets set GITHUB_TOKEN",
        "op read op://dev/github/token | qm secrets set GITHUB_TOKEN",
        "qm secrets list",
      ),
    );

  secrets
    .command("list")
    .summary("list the names of the secrets")
    .action(() =>
      withWorkspace(context, "ledger", async ({ secrets }) => {
        const names = (await secrets.names()).filter((name) => NAME.test(name));
        const text = names.join("\n") || "No secrets are stored. `qm secrets set NAME` stores one.";
        context.out.answer({ secrets: names }, text);
      }),
    );

  secrets
    .command("set")
    .summary("store a secret, typed without echo or from stdin")
    .argument("<name>", "letters, digits and _")
    .action((name: string) =>
      withWorkspace(context, "ledger", async (workspace) => {
        const { secrets, config } = workspace;
        requireSecretName(name);
        const { SECRET_PREFIX, listVariables } = await import("../../config/references.ts");
        // Replacing an approver's token would allow to approve as them.
        const tokens = Object.values(config.approvals.approvers).flatMap(({ token = "" }) => listVariables(token));
        if (tokens.includes(`${SECRET_PREFIX}${name}`))
          requirePresence(context, await identifyApprover(context, workspace));
        const value = await readSecret(context.io, name);
        if (value === "") throw createUsageError("a secret cannot be empty", "Nothing was stored.");
        await secrets.set(name, value);
        context.out.answer({ stored: name }, `Stored. Refer to it as \${secret:${name}}.`);
      }),
    );

  secrets
    .command("remove")
    .summary("delete a secret")
    .argument("<name>")
    .action((name: string) =>
      withWorkspace(context, "ledger", async ({ secrets }) => {
        requireSecretName(name);
        if (!(await secrets.delete(name)))
          throw new QmError("not_found", `no secret ${name} is stored`, { hint: "`qm secrets list` shows the names." });
        context.out.answer({ removed: name }, "Removed.");
      }),
    );
}

function requireSecretName(name: string): void {
  if (NAME.test(name)) return;
  const message = `${JSON.stringify(name)} is not a valid name of a secret`;
  throw createUsageError(message, "Use letters, digits and _, as in GITHUB_TOKEN.");
}

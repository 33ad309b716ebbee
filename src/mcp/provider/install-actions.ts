import { z } from "zod";
import { defineAction } from "../../catalog/define-action.ts";
import type { Action, CallContext } from "../../core/action.ts";
import type { Caller } from "../../core/caller.ts";
import { formatCount, toOneLine } from "../../core/display-text.ts";
import { QmError, toErrorDetails } from "../../core/errors.ts";
import type { JsonObject } from "../../core/json.ts";
import type { InstallPlan } from "../install/install-plan.ts";
import type { InstallPlanRequest } from "../install/install-planner.ts";
import type { ServerCatalog } from "./mcp-provider.ts";
import { type ServerInstaller, serverNotFoundError } from "./server-installer.ts";
import { MCP_CATEGORY } from "./tool-actions.ts";

/** Who is behind a call, as far as anybody knows: the ledger says on whose word a server came or went. */
function identifyCaller({ person, user, actor }: Caller): string {
  return person ?? user?.id ?? actor;
}

export function createDropServerAction(desk: ServerInstaller, servers: ServerCatalog): Action {
  return defineAction(MCP_CATEGORY, {
    entry: "drop_server",
    description: "Remove an MCP server: it is stopped and taken out of the configuration. A person must agree.",
    effect: "stateful",
    tags: ["destructive"],
    requiresApproval: true,
    input: z.strictObject({
      server: z.string().min(1),
      clear_secrets: z.boolean().default(true).describe("Forget the secrets that no other server uses, too."),
    }),
    examples: [{ args: { server: "github" } }],
    async run({ server, clear_secrets }, { caller, sees }) {
      const offered = servers.actions(server);
      // One that is disabled offers nothing, and can be removed all the same.
      if (offered.length > 0 && !offered.some((action) => sees(action.name))) throw serverNotFoundError(server);
      return desk.drop(server, identifyCaller(caller), { clearSecrets: clear_secrets });
    },
  });
}

export function createSearchRegistryAction({ registry }: ServerInstaller): Action {
  return defineAction(MCP_CATEGORY, {
    entry: "search_registry",
    description: "Search the MCP registry for servers that could be installed, by what they do.",
    effect: "read",
    idempotent: true,
    input: z.strictObject({
      query: z.string().describe("A few words, or part of a name."),
      limit: z.int().min(1).max(50).default(10),
      offset: z.int().min(0).default(0),
    }),
    examples: [{ args: { query: "postgres database" } }],
    run: ({ query, limit, offset }, { signal }) => registry.search(query, { limit, offset, signal }),
  });
}

const name = z.string().optional().describe("What to call it here. Absent: made from its own name.");
const expect = z.string().optional().describe("The hash of the plan a person agreed to; anything else is refused.");
const references = `Secrets only as \${secret:NAME} or \${env:NAME}.`;
const env = z.record(z.string(), z.string()).default({}).describe(`Its variables. ${references}`);
const args = z.array(z.string()).default([]).describe("Its arguments, as they are; no shell reads them.");

const registrySchema = z.strictObject({
  server_id: z.string().min(1).describe("As the registry has it: `io.github.owner/name`."),
  version: z.string().optional(),
  name,
  choose: z.string().optional().describe("Which of its packages or addresses, when it has several: npm, oci, remote."),
  inputs: z.record(z.string(), z.string()).default({}).describe(`Values of what it asks for. ${references}`),
  expect,
});

const packageSchema = z.strictObject({
  kind: z.enum(["npm", "pypi", "docker", "github"]),
  identifier: z.string().min(1).describe("The package, the image with its tag, or the URL of the repository."),
  version: z.string().optional().describe("Absent: the newest, which is then pinned."),
  name,
  args,
  env,
  expect,
});

const localSchema = z.strictObject({
  name: z.string().min(1),
  command: z.string().optional().describe("The program to start."),
  args,
  env,
  cwd: z.string().optional(),
  url: z.string().optional().describe("In place of a command: the address of a server that runs elsewhere."),
  headers: z.record(z.string(), z.string()).default({}).describe(`Sent with every request to \`url\`. ${references}`),
  expect,
});

/** The three ways to install a server. Each asks a person, always, and shows what exactly would be run. */
export function createInstallActions(desk: ServerInstaller): readonly Action[] {
  return [
    createInstallAction(desk, {
      entry: "install_registry",
      description: "Install an MCP server from the registry, by its id. A person must agree.",
      input: registrySchema,
      examples: [{ args: { server_id: "io.github.owner/name" } }],
      request: ({ server_id, version, name, choose, inputs }) => ({
        from: "registry",
        id: server_id,
        version,
        name,
        choose,
        inputs,
      }),
    }),
    createInstallAction(desk, {
      entry: "install_package",
      description:
        "Install an MCP server that is a package: from npm, PyPI, a Docker image or a GitHub repository. A person must agree.",
      input: packageSchema,
      examples: [{ args: { kind: "npm", identifier: "@modelcontextprotocol/server-memory" } }],
      request: ({ kind, identifier, version, name, args, env }) => ({
        from: "package",
        kind,
        identifier,
        version,
        name,
        args,
        env,
      }),
    }),
    createInstallAction(desk, {
      entry: "install_local",
      description:
        "Register a command on this machine, or the URL of a running server, as an MCP server. A person must agree.",
      input: localSchema,
      examples: [{ args: { name: "notes", command: "node", args: ["notes-server.mjs"] } }],
      request: ({ expect: _expect, ...asked }) => ({ from: "local", ...asked }),
    }),
  ];
}

interface InstallActionOptions<Schema extends z.ZodType<{ readonly expect?: string | undefined }>> {
  readonly entry: string;
  readonly description: string;
  readonly input: Schema;
  readonly examples: readonly { readonly args: JsonObject }[];
  request(args: z.output<Schema>): InstallPlanRequest;
}

function createInstallAction<Schema extends z.ZodType<{ readonly expect?: string | undefined }>>(
  desk: ServerInstaller,
  { entry, description, input, examples, request }: InstallActionOptions<Schema>,
): Action {
  return defineAction(MCP_CATEGORY, {
    entry,
    description,
    effect: "stateful",
    tags: ["install"],
    requiresApproval: true,
    timeoutMs: 10 * 60_000,
    input,
    examples,
    preview: async (args, signal) => formatInstallPlan(await desk.plan(request(input.parse(args)), signal)),
    async run(given, context: CallContext) {
      const args = given as z.output<Schema>;
      const plan = await desk.plan(request(args), context.signal);
      requireSamePlan(plan, args.expect, context.approvalDecision?.preview);
      requireCompletePlan(plan);
      return desk.install(plan, identifyCaller(context.caller), context.signal);
    },
  });
}

/** A plan as a person reads it who is to agree to it: nothing is cut. */
function formatInstallPlan(plan: InstallPlan): string {
  const warnings = plan.warnings.map((warning) => `careful: ${warning}\n`);
  return `${formatPlanFacts(plan)}${warnings.join("")}plan: ${plan.hash}`;
}

/** What would be done. Warnings also depend on what else is installed by then. */
function formatPlanFacts({ name, command, hosts, missing }: InstallPlan): string {
  const lines = [
    `install the MCP server ${name}`,
    `runs: ${command}`,
    ...(hosts.length === 0 ? [] : [`reaches: ${hosts.join(", ")}`]),
    ...missing.map(
      ({ key, description }) => `needs: ${key}${description === undefined ? "" : `: ${toOneLine(description)}`}`,
    ),
  ];
  return lines.map((line) => `${line}\n`).join("");
}

/** A registry may answer otherwise than when a person was shown the plan. */
function requireSamePlan(plan: InstallPlan, expected: string | undefined, shown: string | undefined): void {
  const { hash, command } = plan;
  if ((expected === undefined || expected === hash) && (shown === undefined || shown.startsWith(formatPlanFacts(plan))))
    return;
  throw new QmError("conflict", "what would be installed is not what was agreed to any more", {
    hint: "Nothing was installed. Look at it again.",
    details: toErrorDetails({ would_run: command, plan: hash }),
  });
}

function requireCompletePlan({ missing, name }: InstallPlan): void {
  if (missing.length === 0) return;
  throw new QmError("invalid_arguments", `${name} needs ${formatCount(missing.length, "value")} that nobody gave`, {
    hint: "Nothing was installed. Give what is not secret as arguments. A person stores secrets with `qm secrets set`.",
    details: toErrorDetails({ missing: missing.map((each): JsonObject => toErrorDetails({ ...each })) }),
  });
}

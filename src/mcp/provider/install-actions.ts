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

/** The person behind a call if known, for the ledger. */
const identifyCaller = ({ person, user, actor }: Caller): string => person ?? user?.id ?? actor;

export function createDropServerAction(installer: ServerInstaller, servers: ServerCatalog): Action {
  return defineAction(MCP_CATEGORY, {
    entry: "drop_server",
    description: "Stop an MCP server and remove it from the configuration. A person must agree.",
    effect: "stateful",
    tags: ["destructive"],
    requiresApproval: true,
    input: z.lazy(() =>
      z.strictObject({
        server: z.string().min(1),
        clear_secrets: z.boolean().default(true).describe("Also delete the secrets that no other server uses."),
      }),
    ),
    examples: [{ args: { server: "github" } }],
    async run({ server, clear_secrets }, { caller, sees }) {
      const offered = servers.actions(server);
      // A disabled server has no actions but can be removed.
      if (offered.length > 0 && !offered.some((action) => sees(action.name))) throw serverNotFoundError(server);
      return installer.drop(server, identifyCaller(caller), { clearSecrets: clear_secrets });
    },
  });
}

export function createSearchRegistryAction({ registry }: ServerInstaller): Action {
  return defineAction(MCP_CATEGORY, {
    entry: "search_registry",
    description: "Search the MCP registry for servers that could be installed, by what they do.",
    effect: "read",
    idempotent: true,
    input: z.lazy(() =>
      z.strictObject({
        query: z.string().describe("A few words, or part of a name."),
        limit: z.int().min(1).max(50).default(10),
        offset: z.int().min(0).default(0),
      }),
    ),
    examples: [{ args: { query: "postgres database" } }],
    run: ({ query, limit, offset }, { signal }) => registry.search(query, { limit, offset, signal }),
  });
}

const text = (description: string) => z.string().optional().describe(description);
const name = text("Its name here. Default: made from its own name.");
const expect = text("The hash of the plan that a person agreed to. Any other plan is refused.");
const references = `Secrets only as \${secret:NAME} or \${env:NAME}.`;
const env = z.record(z.string(), z.string()).default({}).describe(`Its variables. ${references}`);
const args = z.array(z.string()).default([]).describe("Its arguments. No shell interprets them.");

const registrySchema = z.lazy(() =>
  z.strictObject({
    server_id: z.string().min(1).describe("The id in the registry: `io.github.owner/name`."),
    version: z.string().optional(),
    name,
    choose: text("Which of its packages or addresses to use if it has several: npm, oci, remote."),
    inputs: z.record(z.string(), z.string()).default({}).describe(`Values for its inputs. ${references}`),
    expect,
  }),
);

const packageSchema = z.lazy(() =>
  z.strictObject({
    kind: z.enum(["npm", "pypi", "docker", "github"]),
    identifier: z.string().min(1).describe("The package, the image with its tag, or the URL of the repository."),
    version: z.string().optional().describe("Default: the newest, which is then pinned."),
    name,
    args,
    env,
    expect,
  }),
);

const localSchema = z.lazy(() =>
  z.strictObject({
    name: z.string().min(1),
    command: z.string().optional().describe("The program to start."),
    args,
    env,
    cwd: z.string().optional(),
    url: z.string().optional().describe("The address of a remote server, instead of a command."),
    headers: z.record(z.string(), z.string()).default({}).describe(`Sent with every request to \`url\`. ${references}`),
    expect,
  }),
);

/** The actions that install a server. Each always needs approval, with a preview of the exact command. */
export function createInstallActions(installer: ServerInstaller): readonly Action[] {
  return [
    createInstallAction(installer, {
      entry: "install_registry",
      description: "Install an MCP server from the registry, by its id. A person must agree.",
      input: registrySchema,
      examples: [{ args: { server_id: "io.github.owner/name" } }],
      request: ({ server_id, expect: _expect, ...rest }) => ({ from: "registry", id: server_id, ...rest }),
    }),
    createInstallAction(installer, {
      entry: "install_package",
      description:
        "Install an MCP server that is a package: from npm, PyPI, a Docker image or a GitHub repository. A person must agree.",
      input: packageSchema,
      examples: [{ args: { kind: "npm", identifier: "@modelcontextprotocol/server-memory" } }],
      request: ({ expect: _expect, ...rest }) => ({ from: "package", ...rest }),
    }),
    createInstallAction(installer, {
      entry: "install_local",
      description:
        "Register a command on this machine, or the URL of a running server, as an MCP server. A person must agree.",
      input: localSchema,
      examples: [{ args: { name: "notes", command: "node", args: ["notes-server.mjs"] } }],
      request: ({ expect: _expect, ...rest }) => ({ from: "local", ...rest }),
    }),
  ];
}

interface InstallActionFields<Schema extends z.ZodType> {
  readonly entry: string;
  readonly description: string;
  readonly input: Schema;
  readonly examples: readonly { readonly args: JsonObject }[];
  request(args: z.output<Schema>): InstallPlanRequest;
}

function createInstallAction<Schema extends z.ZodType<{ readonly expect?: string | undefined }>>(
  installer: ServerInstaller,
  { request, ...fields }: InstallActionFields<Schema>,
): Action {
  return defineAction(MCP_CATEGORY, {
    ...fields,
    effect: "stateful",
    tags: ["install"],
    requiresApproval: true,
    timeoutMs: 10 * 60_000,
    preview: async (args, signal) => formatInstallPlan(await installer.plan(request(fields.input.parse(args)), signal)),
    async run(input, context: CallContext) {
      const args = input as z.output<Schema>;
      const plan = await installer.plan(request(args), context.signal);
      requireSamePlan(plan, args.expect, context.approvalDecision?.preview);
      requireCompletePlan(plan);
      return installer.install(plan, identifyCaller(context.caller), context.signal);
    },
  });
}

/** The preview for the person who approves. Nothing is cut. */
function formatInstallPlan(plan: InstallPlan): string {
  const warnings = plan.warnings.map((warning) => `careful: ${warning}\n`);
  return `${formatPlanFacts(plan)}${warnings.join("")}plan: ${plan.hash}`;
}

/** The plan without its warnings, which also depend on the other installed servers. */
function formatPlanFacts({ name, command, hosts, missing }: InstallPlan): string {
  const lines = [
    `install the MCP server ${name}`,
    `runs: ${command}`,
    ...(hosts.length === 0 ? [] : [`reaches: ${hosts.join(", ")}`]),
    ...missing.map(({ key, description: what }) => `needs: ${key}${what === undefined ? "" : `: ${toOneLine(what)}`}`),
  ];
  return lines.map((line) => `${line}\n`).join("");
}

/** The registry may have changed since a person saw the plan. */
function requireSamePlan(plan: InstallPlan, expected: string | undefined, preview: string | undefined): void {
  const { hash, command } = plan;
  const isExpected = expected === undefined || expected === hash;
  if (isExpected && (preview === undefined || preview.startsWith(formatPlanFacts(plan)))) return;
  throw new QmError("conflict", "the plan has changed since a person agreed to it", {
    hint: "Nothing was installed. Look at the new plan and ask again.",
    details: toErrorDetails({ would_run: command, plan: hash }),
  });
}

function requireCompletePlan({ missing, name }: InstallPlan): void {
  if (missing.length === 0) return;
  throw new QmError("invalid_arguments", `${name} needs ${formatCount(missing.length, "value")} that are missing`, {
    hint: "Nothing was installed. Pass values that are not secret as arguments. A person must store secrets in Quartermaster. Run {qm secrets set NAME}.",
    details: toErrorDetails({
      missing: missing.map(({ secretName: secret_name, ...each }) => toErrorDetails({ ...each, secret_name })),
    }),
  });
}

import { characterWarnings, visible } from "../../core/visible.ts";
import { clientNamed } from "../../mcp/clients/clients.ts";
import type { ImportPlan, PlannedServer } from "../../mcp/clients/plan.ts";
import type { FoundList } from "../../mcp/clients/read.ts";
import type { Context } from "../context.ts";
import { counted, oneLine, plain, shellQuoted } from "../text.ts";

interface Looked {
  readonly found: readonly FoundList[];
  /** The clients that were named. None: all are looked at. */
  readonly asked: readonly string[];
}

/** What an import would do, for a person. */
export function showPlan({ out }: Context, path: string, plan: ImportPlan, { found, asked }: Looked): void {
  for (const name of asked) {
    const lists = found.filter(({ client }) => client.name === name);
    if (lists.every(({ servers, problems }) => servers.length === 0 && problems.length === 0))
      out.line(`${clientNamed(name).title} has no MCP servers.`);
  }
  if (found.length === 0 && asked.length === 0)
    out.line("No client on this machine has a list of MCP servers that could be read.");
  if (plan.servers.length > 0) out.line(`${counted(plan.servers.length, "server")} for ${plain(path)}:`);
  for (const server of plan.servers) {
    out.line();
    out.line(
      `${out.bold(server.name)}  ${out.dim(`from ${clientNamed(server.client).title}, ${oneLine(server.path)}`)}`,
    );
    // Lines, not a table: a table is cut at the width of the terminal, and somebody is asked about what it says.
    for (const [what, text] of rowsOf(server)) out.line(`  ${what.padEnd(8)}  ${visible(text)}`);
    for (const warning of characterWarnings(JSON.stringify(server.entry))) out.line(`  careful   it ${plain(warning)}`);
  }
  if (plan.skipped.length > 0) {
    out.line();
    out.line("Left out:");
    const rows = plan.skipped.map(({ called, client, why }) => [called, client, why]);
    out.table(["server", "client", "why"], rows, 2);
  }
  for (const { client, path, problems } of found)
    for (const problem of problems) out.note(`qm: warning: ${client.title}: ${oneLine(path)}: ${oneLine(problem)}`);
  out.line();
}

function rowsOf({ entry, secrets, notes }: PlannedServer): readonly (readonly [what: string, text: string])[] {
  const { command, args = [], env = {}, cwd, url, headers = {}, enabled } = entry;
  const row = (what: string, text: string | undefined) => (text === undefined ? [] : [[what, text] as const]);
  return [
    ...row("runs", command === undefined ? undefined : [command, ...args].map(shown).join(" ")),
    ...row("in", cwd),
    ...row("reaches", url),
    ...Object.entries(env).map(([name, value]) => ["variable", `${name}=${value}`] as const),
    ...Object.entries(headers).map(([name, value]) => ["header", `${name}: ${value}`] as const),
    ...row("enabled", enabled === false ? "no, as it is switched off there" : undefined),
    ...secrets.map(
      ({ name, where }) => ["secret", `${name}, which is written out in ${where}, goes to the secret store`] as const,
    ),
    ...notes.map((note) => ["note", note] as const),
  ];
}

/** References as they are: quotes would be right, and would make them hard to see. */
function shown(word: string): string {
  return /^[\w@%+=:,./${}-]+$/.test(word) ? word : shellQuoted(word);
}

interface Ending {
  readonly written: boolean;
  readonly backup: string | undefined;
}

/** What would be added, as data, with the names of secrets alone. */
export function plannedServers({ servers }: ImportPlan) {
  return servers.map(({ secrets, ...server }) => ({
    ...server,
    secrets: secrets.map(({ name, where }) => ({ name, where })),
  }));
}

/** The same as data. No secret is in it, only their names. */
export function planJson(path: string, plan: ImportPlan, found: readonly FoundList[], { written, backup }: Ending) {
  return {
    config: path,
    servers: plannedServers(plan),
    skipped: plan.skipped,
    problems: found.flatMap(({ client, path, problems }) =>
      problems.map((problem) => ({ client: client.name, path, problem })),
    ),
    written,
    ...(backup === undefined ? {} : { backup }),
  };
}

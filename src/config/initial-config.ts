/** The file actions may only read, also change files, or are switched off. */
export const fileAccessKinds = ["read", "write", "none"] as const;
export type FileAccess = (typeof fileAccessKinds)[number];

/** The file that `qm init` writes: every section with its defaults, and examples as comments. */
export function getInitialConfig(files: FileAccess = "read"): string {
  if (files === "write") return INITIAL.replace("read_only: true", "read_only: false");
  return files === "none" ? INITIAL.replace("file:\n    enabled: true", "file:\n    enabled: false") : INITIAL;
}

// "# " starts a comment, "#" without a space an example; a test enables the examples.
const INITIAL = `# yaml-language-server: $schema=./node_modules/quartermaster/docs/config.schema.json
#
# Quartermaster: the actions, who may use them, and what is recorded. Everything here is a default; delete what you do
# not change. All keys: node_modules/quartermaster/docs/config.md

# The ledger. Paths are relative to this file.
store:
  path: .quartermaster/quartermaster.db

providers:
  file:
    enabled: true
    # Nothing outside this folder can be read or written.
    root: .
    # false: files can also be written, edited and deleted.
    read_only: true
  # Web pages: web__fetch. docs/guides/use-the-web.md adds a search engine.
  #web: { enabled: true }
  # Programs in a sandbox: exec__run. Needs Linux with bubblewrap; \`qm doctor\` checks it.
  #exec: { enabled: true, folder: work }
  # What actors remember across sessions: memory_operation__*.
  #memory: { enabled: true }
  # Passages of your documents, to cite: rag_operation__*.
  #rag: { enabled: true }
  # Quartermaster's own documentation and source: qm_source__*.
  #source: { enabled: true }

# Folders with skills, which are actions: skill__<name>. .agents/skills and .claude/skills are searched without an entry,
# and a person must approve the first use of each skill there. Skills of your own folders need no approval.
#skills:
#  folders: [team/skills]
#  project_folders: []

# Language models, for actors that answer messages (\`qm chat\`) and for skills that ask one. Without a name: "default".
#models:
#  default:
#    provider: anthropic
#    model: claude-sonnet-4-5
#    api_key: \${secret:ANTHROPIC_KEY}

# MCP servers. Their tools are actions: mcp__<name>__<tool>. \`qm servers add\` and \`qm import\` write them here.
#servers:
#  memory:
#    command: npx
#    args: ["-y", "@modelcontextprotocol/server-memory@2026.8.31"]
#  tracker:
#    url: https://mcp.example.com/mcp
#    headers: { Authorization: "Bearer \${secret:TRACKER_TOKEN}" }
#    tools:
#      "delete_*": { approval: true }

# Web APIs. Their operations are actions: api__<name>__<operation>. \`qm import openapi\` writes them here.
#apis: {}

mcp:
  starting_at_once: 4
  # Whether a model may ask to install servers. A person must always approve.
  install: true

# Quartermaster as an MCP server: \`qm mcp\` and \`qm serve\`. \`qm connect\` writes it into a client.
gateway:
  host: 127.0.0.1
  port: 7420
  # Kinds of clients: their actors and surfaces.
  #profiles:
  #  reviewing: { actor: default, token: "\${env:REVIEWER_TOKEN}", surface: deferred }

# Other agents that speak A2A 1.0. They are actions: agent.peer__<name>. \`qm peers\` shows them.
#peers:
#  research:
#    url: https://agents.example.com
#    token: \${secret:RESEARCH_TOKEN}
#    description: Looks up papers and sums them up.

# Quartermaster as an agent: with \`enabled\`, \`qm serve\` lets these clients call exposed actors.
a2a:
  enabled: false
  #clients:
  #  partner: { token: "\${secret:PARTNER_TOKEN}", actor: default }

policy:
  # The only actions that may be used. Without it: all.
  #allowed: ["file__*"]
  denied: []
  # Conditions in CEL. hide: not seen; deny: seen, never run; ask: a person must approve.
  #rules:
  #  - name: ask-before-deleting
  #    rule: "actor.scope != 'admin' && 'destructive' in tool.tags"
  #    effect: ask
  #    reason: Deleting needs a person's approval.
  # Calls are refused when one of these is used up.
  #budgets:
  #  turn: { calls: 50 }
  #  session: { calls: 1000, ms: 600000, bytes: 50000000, tokens: 500000 }

# Who may use what. Callers that name no actor are "default".
actors:
  default:
    tools: ["*"]
  #reviewer:
  #  tools: [file__read, file__list, file__grep]
  #  scope: reviewer
  #  instructions: You review changes. Name the worst problem first.

# Named sets of skills and actions that only the actors in them see. \`qm worlds\` shows them.
#worlds:
#  minecraft:
#    description: Build and mine.
#    skills: [worlds/minecraft]
#    actions: ["mcp__minecraft__*"]
# The world of actors that name none.
#world: minecraft

# Calls that a person must approve, by a rule with the effect ask or by category. \`qm approvals\` shows and answers them.
approvals:
  expires_in: 24h
  #categories:
  #  mcp: { auto_approve_if: "tool.effect == 'read'" }
  # The people who may answer. Without any: everyone at this machine's command line.
  #approvers:
  #  ann: { roles: [admin], token: "\${secret:ANN_TOKEN}" }

# Deadlines and retries for calls. The first rule that applies counts.
#routing:
#  rules:
#    - name: patient-reads
#      event: "tool_call:mcp__tracker__*"
#      when: "tool.effect == 'read'"
#      retry: { attempts: 3 }

# Long results are stored as notes and collections and used by reference. \`qm notes\` shows them.
infospace:
  enabled: true
  expires_in: 24h

# The tools of a model: universal (a few constant tools that find and call actions), deferred (actions become tools when
# they are called), flat (every action), auto (flat while that fits token_budget).
surface:
  kind: universal

# The tier of actors that name none. With light, for weak models, a prompt tells the model each step. \`qm prompt\` shows it.
router_model: strong

# Other names for surface.kind, search.embedder.class and surface.hot_list_n.
#action_retrieval: { universal_wrappers_enabled: true, hot_list_n: 0 }

# Search by words, and with an embedder by meaning too.
search:
  enabled: true
  #embedder:
  #  class: standard
  #  base_url: https://api.openai.com/v1
  #  api_key: \${env:OPENAI_API_KEY}

limits:
  timeout_ms: 60000
  concurrency: 32

# OpenTelemetry spans and metrics.
telemetry:
  enabled: false

# Keys whose values are never recorded, besides the built-in ones.
ledger:
  redact: []

# Values to keep out of the ledger.
#secrets: ["\${env:GITHUB_TOKEN}"]
`;

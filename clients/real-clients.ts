/** The MCP clients that `npm run clients` installs and runs, with the versions that were tested. */
export interface RealClient {
  /** Its name for `qm connect`. */
  readonly name: string;
  readonly package: string;
  readonly version: string;
  readonly bin: string;
  /** The user's file, relative to the home folder, and what the user has in it before `qm connect`. */
  readonly file: string;
  readonly before: string;
  /** How `mcp list` reports that it reached Quartermaster. */
  readonly connected: RegExp;
  readonly env?: Readonly<Record<string, string>>;
  /** A task without a person, with the model at the given address. */
  task(modelUrl: string): { readonly args: readonly string[]; readonly env: Readonly<Record<string, string>> };
}

const PROMPT = "What does greeting.txt say?";
const MODEL = "scripted";

export const realClients: readonly RealClient[] = [
  {
    name: "claude-code",
    package: "@anthropic-ai/claude-code",
    version: "2.1.325",
    bin: "claude",
    file: ".claude.json",
    before: '{\n  "numStartups": 1\n}\n',
    connected: /^qm: .* Connected$/m,
    env: { CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1", DISABLE_AUTOUPDATER: "1", DISABLE_TELEMETRY: "1" },
    task: (modelUrl) => ({
      args: ["-p", PROMPT, "--allowedTools", "mcp__qm"],
      env: { ANTHROPIC_BASE_URL: modelUrl, ANTHROPIC_API_KEY: "none" },
    }),
  },
  {
    name: "codex",
    package: "@openai/codex",
    version: "0.166.0",
    bin: "codex",
    file: ".codex/config.toml",
    before: '# Mine.\nmodel_reasoning_effort = "low"\n',
    // Codex lists what is configured, and connects only for a task.
    connected: /^qm .* enabled /m,
    task(modelUrl) {
      const provider = `{ name = "scripted", base_url = "${modelUrl}/v1", wire_api = "responses", env_key = "MODEL_KEY" }`;
      const settings = [
        `model="${MODEL}"`,
        'model_provider="scripted"',
        `model_providers.scripted=${provider}`,
        'mcp_servers.qm.default_tools_approval_mode="approve"',
        // Codex sends the first message without the tools of a server that takes longer to start than half a second.
        "mcp_servers.qm.required=true",
      ];
      const args = ["exec", "--skip-git-repo-check", ...settings.flatMap((setting) => ["-c", setting]), PROMPT];
      return { args, env: { MODEL_KEY: "none" } };
    },
  },
  {
    name: "gemini",
    package: "@google/gemini-cli",
    version: "0.61.0",
    bin: "gemini",
    file: ".gemini/settings.json",
    before:
      '{\n  // Mine.\n  "security": { "auth": { "selectedType": "gemini-api-key" } },\n  "privacy": { "usageStatisticsEnabled": false }\n}\n',
    connected: /qm: .* Connected$/m,
    // It starts no servers in a folder that the user does not trust.
    env: { GEMINI_CLI_TRUST_WORKSPACE: "true", GEMINI_TELEMETRY_ENABLED: "false" },
    task: (modelUrl) => ({
      // It asks the model which model to use, unless one is named.
      args: ["--yolo", "--model", "gemini-2.5-flash", "-p", PROMPT],
      env: { GOOGLE_GEMINI_BASE_URL: modelUrl, GEMINI_API_KEY: "none" },
    }),
  },
  {
    name: "opencode",
    package: "opencode-ai",
    version: "1.18.33",
    bin: "opencode",
    file: ".config/opencode/opencode.json",
    before: '{\n  // Mine.\n  "share": "disabled"\n}\n',
    connected: /qm \S*connected/,
    env: { OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_DISABLE_MODELS_FETCH: "1", OPENCODE_DISABLE_LSP_DOWNLOAD: "1" },
    task(modelUrl) {
      const scripted = {
        npm: "@ai-sdk/openai-compatible",
        options: { baseURL: `${modelUrl}/v1`, apiKey: "none" },
        models: { [MODEL]: { name: MODEL, tool_call: true } },
      };
      const model = `scripted/${MODEL}`;
      const config = { provider: { scripted }, model, small_model: model };
      return { args: ["run", PROMPT], env: { OPENCODE_CONFIG_CONTENT: JSON.stringify(config) } };
    },
  },
];

/**
 * Names that categories had before, or have in systems a model may know from its training, and what they are called
 * here. One more entry is all that a renamed category needs.
 */
export const categoryRedirects: Readonly<Record<string, string>> = {
  "mcp.server": "mcp",
  "mcp.tool": "mcp",
  "mcp.operation": "mcp",
  multi_agent: "agent.peer",
  agent: "agent.peer",
  peer: "agent.peer",
  "memory.entry": "memory_entry",
  "memory.operation": "memory_operation",
  memory: "memory_operation",
  "rag.corpus": "rag_corpus",
  "rag.operation": "rag_operation",
  rag: "rag_operation",
  reyn_source: "qm_source",
  reyn_repo: "qm_source",
  workflow: "skill",
  fs: "file",
  filesystem: "file",
  files: "file",
};

/** What providers' models put before a tool's name when they mean the tool itself. */
export const namespacePrefixes: readonly string[] = ["default_api.", "functions.", "tools.", "action:", "qm."];

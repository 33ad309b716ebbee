interface HistogramAdvice {
  readonly description: string;
  /** In seconds. */
  readonly boundaries: readonly number[];
}

const OPERATION = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];
const TOOL = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/** The histograms of the GenAI and MCP conventions that are filled here, with the boundaries they ask for. */
export const histograms: Readonly<Record<string, HistogramAdvice>> = {
  "gen_ai.execute_tool.duration": { description: "The duration of a single tool execution.", boundaries: TOOL },
  "mcp.client.operation.duration": {
    description: "The duration of an MCP request as observed on the sender.",
    boundaries: OPERATION,
  },
  "mcp.server.operation.duration": {
    description: "The duration of an MCP request as observed on the receiver.",
    boundaries: OPERATION,
  },
  "mcp.client.session.duration": {
    description: "The duration of the MCP session as observed on the MCP client.",
    boundaries: OPERATION,
  },
  "mcp.server.session.duration": {
    description: "The duration of the MCP session as observed on the MCP server.",
    boundaries: OPERATION,
  },
};

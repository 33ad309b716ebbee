/** An error as JSON-RPC has it, for what is refused before it gets to anything that answers requests. */
export function rpcError(status: number, code: number, message: string, headers?: Record<string, string>): Response {
  return Response.json(
    { jsonrpc: "2.0", error: { code, message }, id: null },
    { status, ...(headers === undefined ? {} : { headers }) },
  );
}

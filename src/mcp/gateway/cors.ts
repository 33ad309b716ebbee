const ALLOWED_HEADERS = [
  "accept",
  "authorization",
  "content-type",
  "last-event-id",
  "mcp-method",
  "mcp-name",
  "mcp-protocol-version",
  "mcp-session-id",
  "quartermaster-session",
];

/** What a browser must be told before it lets an allowed page read an answer. */
export function corsHeaders(origin: string): Record<string, string> {
  return {
    "access-control-allow-origin": origin,
    "access-control-expose-headers": "Mcp-Session-Id, WWW-Authenticate",
    vary: "Origin",
  };
}

/** The answer to a browser that asks whether a page may call. `requested`: the headers the page wants to send. */
export function preflight(requested: string | undefined): Response {
  const parameters = (requested ?? "")
    .split(",")
    .map((header) => header.trim().toLowerCase())
    .filter((header) => /^mcp-param-[a-z0-9!#$%&'*+.^_`|~-]+$/.test(header))
    .slice(0, 32);
  return new Response(null, {
    status: 204,
    headers: {
      "access-control-allow-methods": "GET, POST, DELETE",
      "access-control-allow-headers": [...ALLOWED_HEADERS, ...parameters].join(", "),
      "access-control-max-age": "600",
    },
  });
}

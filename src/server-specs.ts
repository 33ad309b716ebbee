import { resolve } from "node:path";
import type { Config } from "./config/schema.ts";
import { type ServerConfig, serverSchema } from "./config/servers-schema.ts";
import type { JsonObject } from "./core/json.ts";
import type { Launch, ServerSpec } from "./mcp/server-spec.ts";

/** The configured servers in the words of the hub. Relative paths are relative to `folder`. */
export function serverSpecsOf({ servers }: Pick<Config, "servers">, folder: string): readonly ServerSpec[] {
  return Object.entries(servers)
    .filter(([, { enabled }]) => enabled)
    .map(([name, server]) => specOf(name, server, folder))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** The servers that stand in the file and are not to be used. */
export function disabledSpecsOf({ servers }: Pick<Config, "servers">, folder: string): readonly ServerSpec[] {
  return Object.entries(servers)
    .filter(([, { enabled }]) => !enabled)
    .map(([name, server]) => specOf(name, server, folder));
}

/** One server as it would stand in the file. Throws when it could not. */
export function specOfEntry(name: string, entry: JsonObject, folder: string): ServerSpec {
  return specOf(name, serverSchema.parse(entry), folder);
}

/** One server as it stands in the file. */
export function specOf(name: string, server: ServerConfig, folder: string): ServerSpec {
  return {
    name,
    launch: launchOf(server, folder),
    protocol: server.protocol,
    startTimeoutMs: server.start_timeout_ms,
    idleTimeoutMs: server.idle_timeout_ms,
    trustAnnotations: server.trust_annotations,
    pin: server.pin,
    tools: Object.entries(server.tools).map(
      ([match, { enabled, effect, tags, approval, loading, arguments: forms }]) => ({
        match,
        enabled,
        tags,
        ...(Object.keys(forms).length === 0 ? {} : { arguments: forms }),
        ...(effect === undefined ? {} : { effect }),
        ...(approval === undefined ? {} : { approval }),
        ...(loading === undefined ? {} : { loading }),
      }),
    ),
    ...(server.description === undefined ? {} : { description: server.description }),
    ...(server.version === undefined ? {} : { version: server.version }),
    ...(server.source === undefined ? {} : { source: server.source }),
    ...(server.call_timeout_ms === undefined ? {} : { callTimeoutMs: server.call_timeout_ms }),
  };
}

function launchOf({ command, args, env, cwd, url, headers, oauth }: ServerConfig, folder: string): Launch {
  if (url === undefined) return { kind: "stdio", command: command ?? "", args, env, cwd: resolve(folder, cwd ?? ".") };
  if (oauth === undefined) return { kind: "http", url, headers };
  const { client_id, client_secret, client_metadata_url, scopes, callback_port } = oauth;
  return {
    kind: "http",
    url,
    headers,
    oauth: {
      ...(client_id === undefined ? {} : { clientId: client_id }),
      ...(client_secret === undefined ? {} : { clientSecret: client_secret }),
      ...(client_metadata_url === undefined ? {} : { clientMetadataUrl: client_metadata_url }),
      ...(scopes === undefined ? {} : { scopes }),
      ...(callback_port === undefined ? {} : { callbackPort: callback_port }),
    },
  };
}

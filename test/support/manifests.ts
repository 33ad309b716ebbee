import { onTestFinished } from "vitest";
import { type ManifestEvent, openManifestService } from "../../src/mcp/manifests/manifest-service.ts";
import type { ManifestStore } from "../../src/mcp/manifests/manifest-store.ts";
import type { OfferedTool, ServerOffer } from "../../src/mcp/manifests/offer.ts";
import type { ServerSpec } from "../../src/mcp/server-spec.ts";
import { openSqlite } from "../../src/store/drivers/sqlite.ts";
import { openStore } from "../../src/store/open-store.ts";

export const at = new Date("2026-01-02T03:04:05.678Z");

export function tool(name: string, description = `Does ${name}.`, rest: Partial<OfferedTool> = {}): OfferedTool {
  return { name, description, inputSchema: { type: "object" }, ...rest };
}

export function offer(...tools: readonly OfferedTool[]): ServerOffer {
  const nothing = { serverInfo: { name: "s" }, capabilities: {}, resources: [], resourceTemplates: [], prompts: [] };
  return { protocolVersion: "2025-11-25", era: "legacy", ...nothing, tools };
}

export function spec(name = "s", rest: Partial<ServerSpec> = {}): ServerSpec {
  return {
    name,
    launch: { kind: "stdio", command: name, args: [], env: {} },
    protocol: "auto",
    startTimeoutMs: 1000,
    idleTimeoutMs: 1000,
    trustAnnotations: true,
    pin: true,
    tools: [],
    ...rest,
  };
}

/** Counts the changes that are written. */
export async function memoryStore(): Promise<ManifestStore & { readonly written: () => number }> {
  const store = await openStore(await openSqlite(":memory:"), () => at);
  onTestFinished(store.close);
  let written = 0;
  return {
    ...store.manifests,
    written: () => written,
    change: (server, decide) =>
      store.manifests.change(server, (record) => {
        const change = decide(record);
        if (change !== undefined) written++;
        return change;
      }),
  };
}

/** A manifest book with `specs` in use, and everything it reported. */
export async function openTestManifests(store: ManifestStore, specs: readonly ServerSpec[] = [spec()]) {
  const events: ManifestEvent[] = [];
  const problems: string[] = [];
  const changes: string[] = [];
  const book = await openManifestService({
    store,
    now: () => at,
    note: (event) => events.push(event),
    onProblem: (problem) => problems.push(problem),
  });
  book.use(specs);
  book.onChange((server) => changes.push(server));
  return { book, events, problems, changes };
}

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openStand } from "./stand.ts";
import { type Leg, runSuite } from "./suite.ts";

export const REVISIONS = ["2026-07-28", "2025-11-25"] as const;
export const FACES = ["server", "client"] as const;

/** The arguments for `node` that start each program of the suite. */
export interface Programs {
  readonly client: readonly string[];
  readonly fixtureServer: readonly string[];
}

const tsx = join(import.meta.dirname, "../node_modules/tsx/dist/cli.mjs");
const sources: Programs = {
  client: [tsx, join(import.meta.dirname, "client.ts")],
  fixtureServer: [tsx, join(import.meta.dirname, "fixture-server.ts")],
};

/**
 * Runs every scenario that a revision requires of one face: the gateway, with the fixture server behind it and every name
 * passed through, or the hub's client.
 */
export async function runLeg(
  face: (typeof FACES)[number],
  revision: string,
  programs: Programs = sources,
): Promise<Leg> {
  const results = mkdtempSync(join(tmpdir(), "qm-conformance-"));
  try {
    if (face === "client") {
      const command = [process.execPath, ...programs.client].join(" ");
      return await runSuite({ face, revision, target: ["--command", command], results });
    }
    // Each run has its own stand, because the suite leaves calls that wait for an answer.
    const stand = await openStand(programs.fixtureServer);
    try {
      return await runSuite({ face, revision, target: ["--url", stand.url], results });
    } finally {
      await stand.close();
    }
  } finally {
    rmSync(results, { recursive: true, force: true });
  }
}

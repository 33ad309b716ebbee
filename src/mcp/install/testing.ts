import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import {
  type FakeRegistry,
  type FakeRegistryOptions,
  startFakeRegistry,
} from "../../../test/support/registry/fake-registry.ts";
import { QmError } from "../../core/errors.ts";
import { openSqliteStore } from "../../store/open-store.ts";
import type { InstallInputs } from "./input-resolver.ts";
import type { InstallPlan } from "./install-plan.ts";
import { planFromRegistry, type RegistryPlanOptions } from "./plan-registry-server.ts";
import { parseRegistryEntry, type RegistryEntry } from "./server-json.ts";
import { createServerRegistry, type ServerRegistry, type ServerRegistryOptions } from "./server-registry.ts";

export const HOUR_MS = 60 * 60 * 1000;

/** A registry over a stand-in, with a store of its own and a clock that stands still until it is put on. */
export interface TestRegistry {
  readonly registry: ServerRegistry;
  readonly standIn: FakeRegistry;
  readonly clock: { now: Date };
  /** Another one with the same store, as after a restart. */
  again(options?: Partial<ServerRegistryOptions>): ServerRegistry;
  /** The names that a search finds. */
  names(text: string): Promise<readonly string[]>;
}

export async function testRegistry(
  options: FakeRegistryOptions & Partial<Pick<ServerRegistryOptions, "timeoutMs" | "syncTimeoutMs">> = {},
): Promise<TestRegistry> {
  const standIn = await testStandIn(options);
  const clock = { now: new Date("2026-03-01T00:00:00Z") };
  const now = (): Date => clock.now;
  const store = await openSqliteStore(":memory:", { now });
  onTestFinished(() => store.close());
  const again = (own: Partial<ServerRegistryOptions> = {}): ServerRegistry =>
    createServerRegistry({ url: standIn.url, fetch, store: store.registry, now, ...options, ...own });
  const registry = again();
  return {
    registry,
    standIn,
    clock,
    again,
    names: async (text) => (await registry.search(text, { limit: 100 })).servers.map(({ name }) => name),
  };
}

export async function testStandIn(options: FakeRegistryOptions = {}): Promise<FakeRegistry> {
  const standIn = await startFakeRegistry(options);
  onTestFinished(() => standIn.close());
  return standIn;
}

export async function testFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "qm-registry-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** The error that something ends with. Throws when it does not fail, or with anything but a `QmError`. */
export async function refusalOf(work: Promise<unknown> | (() => unknown)): Promise<QmError> {
  try {
    const answer = await (typeof work === "function" ? work() : work);
    throw new Error(`it answered ${JSON.stringify(answer)}`);
  } catch (thrown) {
    if (thrown instanceof QmError) return thrown;
    throw thrown;
  }
}

/** Of plans that need no network. */
export const planOptions: RegistryPlanOptions = {
  secrets: new Set(),
  bundleFolder: "/bundles",
  platform: "linux",
  fetch: () => Promise.reject(new Error("nothing is to be fetched")),
};

/** A server.json as an entry of a registry. */
export function entryOf(raw: object, status = "active"): RegistryEntry {
  const parsed = parseRegistryEntry({
    server: raw,
    _meta: { "io.modelcontextprotocol.registry/official": { status } },
  });
  if (!parsed.ok) throw new Error(parsed.problem);
  return parsed.entry;
}

/** One of the fixtures, its latest version. */
export function fixture(file: string): object {
  const text = readFileSync(new URL(`../../../test/support/registry/fixtures/${file}.json`, import.meta.url), "utf8");
  return (JSON.parse(text) as object[]).at(-1) ?? {};
}

/** A plan for one of the fixtures. */
export const planOf = (
  file: string,
  inputs: InstallInputs = {},
  own: Partial<RegistryPlanOptions> = {},
): Promise<InstallPlan> => planFromRegistry(entryOf(fixture(file)), inputs, { ...planOptions, ...own });

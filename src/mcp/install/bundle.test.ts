import { execFile } from "node:child_process";
import { hash } from "node:crypto";
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { strToU8, zipSync } from "fflate";
import { describe, expect, test } from "vitest";
import { createNotesBundle } from "../../../test/support/registry/fake-registry.ts";
import { unpackBundle } from "./bundle.ts";
import type { InstallInputs } from "./input-resolver.ts";
import type { BundleFile } from "./install-plan.ts";
import { createInstallPlanner, type InstallPlannerOptions } from "./install-planner.ts";
import { planFromRegistry } from "./plan-registry-server.ts";
import { parseRegistryEntry } from "./server-json.ts";
import { refusalOf, testFolder, testRegistry, testStandIn } from "./testing.ts";

const sha256 = hash("sha256", createNotesBundle(), "hex");
const NAME = "io.github.example/notes-bundle";

async function planning(own: Partial<Pick<InstallPlannerOptions, "platform">> = {}) {
  const { registry, standIn } = await testRegistry();
  const bundleFolder = await testFolder();
  const plan = createInstallPlanner({
    registry,
    fetch,
    bundleFolder,
    platform: "linux",
    home: "/home/me",
    secretNames: async () => [],
    lsRemote: async () => "",
    ...own,
  });
  const of = (id: string, inputs: InstallInputs = {}, signal?: AbortSignal) =>
    plan({ from: "registry", id, inputs }, signal);
  return { of, standIn, bundleFolder };
}

describe("a plan for a bundle", () => {
  test("says how it is started, from its own manifest, and unpacks nothing", async () => {
    const { of, standIn, bundleFolder } = await planning();

    const made = await of(NAME);

    const folder = join(bundleFolder, sha256);
    expect(made.launch).toEqual({
      kind: "stdio",
      command: "node",
      args: [`${folder}/server/index.mjs`, "--folder", "/home/me/notes"],
      env: { NOTES_TITLE: "Notes" },
      cwd: folder,
    });
    expect(made).toMatchObject({ name: "notes-bundle", version: "1.0.0", missing: [] });
    expect(made.files).toEqual({ url: `${standIn.url}/bundles/notes.mcpb`, sha256, folder });
    expect(made.hosts).toEqual([new URL(standIn.url).host]);
    expect(await readdir(bundleFolder)).toEqual([]);
  });

  test("fills in the user's inputs: lists as several arguments, secrets as references", async () => {
    const { of } = await planning({ platform: "win32" });

    const made = await of(NAME, { folder: "/n", extra: ["a", "b"], key: `\${secret:NOTES}` });

    expect(made.launch).toMatchObject({
      command: "node.exe",
      args: [expect.any(String), "--folder", "/n", "a", "b"],
      env: { NOTES_TITLE: "Notes", NOTES_KEY: `\${secret:NOTES}` },
    });
    expect((await refusalOf(of(NAME, { key: "plain" }))).message).toContain("plain text");
    expect((await refusalOf(of(NAME, { other: "x" }))).message).toContain('no input "other"');
  });

  test("is refused when the bundle is not the published one", async () => {
    const { of } = await planning();

    const refusal = await refusalOf(of("io.github.example/replaced-bundle"));

    expect(refusal).toMatchObject({
      code: "conflict",
      details: { expected_sha256: "0".repeat(64), found_sha256: sha256 },
    });
  });

  test("is refused for an address on this machine, unless the registry is here too", async () => {
    const { url } = await testStandIn();
    const raw = {
      name: "a/b",
      version: "1",
      packages: [{ registryType: "mcpb", identifier: `${url}/bundles/notes.mcpb`, fileSha256: sha256 }],
    };
    const parsed = parseRegistryEntry(raw);
    if (!parsed.ok) throw new Error(parsed.problem);
    const options = { secrets: new Set<string>(), bundleFolder: "/x", platform: "linux", fetch };

    const refusal = await refusalOf(
      planFromRegistry(parsed.entry, {}, { ...options, registry: "https://registry.example" }),
    );

    expect(refusal.message).toContain("is on this machine");
    const unchecked = parseRegistryEntry({
      ...raw,
      packages: [{ registryType: "mcpb", identifier: "https://x.example/y" }],
    });
    if (!unchecked.ok) throw new Error(unchecked.problem);
    expect((await refusalOf(planFromRegistry(unchecked.entry, {}, options))).message).toContain("SHA-256");
  });
});

describe("unpacking a bundle", () => {
  const source = (registry: string) => ({ fetch, registry });

  test("writes its files, from which the server starts and answers", async () => {
    const { of, standIn } = await planning();
    const { files, launch } = await of(NAME);
    if (files === undefined || launch.kind !== "stdio") throw new Error("it is no bundle");

    await unpackBundle(files, source(standIn.url));

    expect(await readFile(join(files.folder, "manifest.json"), "utf8")).toContain("mcp_config");
    expect((await stat(join(files.folder, "server/index.mjs"))).mode & 0o777).toBe(0o600);
    const running = promisify(execFile)(launch.command, launch.args, { cwd: launch.cwd });
    running.child.stdin?.end(`${JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" })}\n`);
    expect(JSON.parse((await running).stdout).result.tools).toMatchObject([{ name: "note" }]);
  });

  test("is not repeated, and is complete when two processes do it at once", async () => {
    const { of, standIn, bundleFolder } = await planning();
    const { files } = await of(NAME);

    await Promise.all([1, 2, 3].map(() => unpackBundle(files as BundleFile, source(standIn.url))));
    const asked = standIn.requests.length;
    await unpackBundle(files as BundleFile, source(standIn.url));

    expect(standIn.requests.length).toBe(asked);
    expect(await readdir(bundleFolder)).toEqual([sha256]);
  });

  test("leaves nothing behind when a file in it is broken, or when it is stopped", async () => {
    const folder = await testFolder();
    const archive = Buffer.from(zipSync({ good: strToU8("x"), bad: strToU8("y".repeat(1000)) }));
    archive.writeUInt32LE(5, archive.lastIndexOf(Buffer.from([0x50, 0x4b, 1, 2])) + 24);
    const file = { url: "https://x.example/b.mcpb", sha256: hash("sha256", archive, "hex"), folder: join(folder, "b") };
    const served: typeof fetch = async () => new Response(archive);

    const refusal = await refusalOf(unpackBundle(file, { fetch: served }));
    await expect(unpackBundle(file, { fetch: served }, AbortSignal.abort(new Error("enough")))).rejects.toThrow(
      "enough",
    );

    expect(refusal.message).toContain("broken");
    expect(await readdir(folder)).toEqual([]);
  });
});

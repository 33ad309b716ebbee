import { strToU8, zipSync } from "fflate";
import { expect, test } from "vitest";
import { createBundleLaunch, readBundleManifest } from "./bundle.ts";
import { createInputResolver, type InstallInputs } from "./input-resolver.ts";
import { formatReferenceText } from "./reference-text.ts";
import { refusalOf } from "./testing.ts";
import { readZip } from "./zip.ts";

const entriesOf = (files: Record<string, string>) => {
  const packed = Object.fromEntries(Object.entries(files).map(([name, text]) => [name, strToU8(text)]));
  return readZip(Buffer.from(zipSync(packed)), { entries: 100, bytes: 2 ** 24 });
};

async function launchOf(mcpConfig: object, rest: object = {}, inputs: InstallInputs = {}, home?: string) {
  const manifest = { server: { type: "node", mcp_config: mcpConfig }, ...rest };
  const read = await readBundleManifest(entriesOf({ "manifest.json": JSON.stringify(manifest) }));
  const answers = createInputResolver({ inputs, server: "b", secrets: new Set() });
  const { command, args, env } = createBundleLaunch(read, "/b", answers, { platform: "linux", home });
  const text = (one: Parameters<typeof formatReferenceText>[0]) => formatReferenceText(one, "x");
  return {
    argv: [command, ...args].map(text),
    env: Object.fromEntries(Object.entries(env).map(([name, value]) => [name, text(value)])),
    missing: answers.missing,
  };
}

test("finds a program of the bundle in its folder, any other on the PATH", async () => {
  expect((await launchOf({ command: "server/run", args: ["server/x"] })).argv).toEqual(["/b/server/run", "server/x"]);
  expect((await launchOf({ command: `\${__dirname}/run` })).argv).toEqual(["/b/run"]);
  expect((await launchOf({ command: "python3" })).argv).toEqual(["python3"]);
  expect((await launchOf({ command: "/usr/bin/env" })).argv).toEqual(["/usr/bin/env"]);
});

test("replaces the usual settings by those of the platform, and merges variables", async () => {
  const platform_overrides = { linux: { args: ["l"], env: { B: "2" } }, win32: { command: "w" } };

  const { argv, env } = await launchOf({ command: "c", args: ["u"], env: { A: "1" }, platform_overrides });

  expect(argv).toEqual(["c", "l"]);
  expect(env).toEqual({ A: "1", B: "2" });
});

test("reports required inputs as missing, and sets no variable for an optional one without a value", async () => {
  const user_config = {
    key: { type: "string", sensitive: true, required: true, title: "A key" },
    size: { type: "number", default: 10 },
    idle: { type: "string" },
  };
  const env = { KEY: `\${user_config.key}`, IDLE: `\${user_config.idle}`, SIZE: `\${user_config.size}` };

  const made = await launchOf({ command: "c", env }, { user_config });

  expect(made.missing).toMatchObject([{ key: "key", where: "variable", secret: true, secretName: "B_KEY" }]);
  expect(made.env).toEqual({ KEY: `\${secret:B_KEY}`, SIZE: "10" });
  expect((await refusalOf(launchOf({ command: "c", env }, { user_config }, { size: "big" }))).message).toContain(
    "not a number",
  );
});

test("a manifest refers to no secret and no variable of ours", async () => {
  const { argv } = await launchOf({
    command: "c",
    args: [`\${env:AWS_SECRET}`, `\${secret:X}`, `\${user_config.none}`],
  });

  expect(argv.slice(1)).toEqual([`$\${env:AWS_SECRET}`, `$\${secret:X}`, `$\${user_config.none}`]);
});

test("fills in the user's folders where they are known", async () => {
  const config = { command: "c", args: [`\${HOME}`, `\${DOCUMENTS}\${/}x`] };

  expect((await launchOf(config, {}, {}, "/home/me")).argv).toEqual(["c", "/home/me", "/home/me/Documents/x"]);
  expect((await refusalOf(launchOf(config))).message).toContain("HOME, which is unknown");
});

test.each([
  [{}, "manifest.json is missing"],
  [{ "manifest.json": "{" }, "not JSON"],
  [{ "manifest.json": "[]" }, "not a manifest"],
  [{ "manifest.json": '{"server":{"type":"uv"}}' }, "does not say how to start it"],
  [
    { "manifest.json": `{"server":{"mcp_config":{"command":"c"}},"x":${"[".repeat(100)}${"]".repeat(100)}}` },
    "not a manifest",
  ],
])("a bundle with %j cannot be installed", async (files, why) => {
  expect((await refusalOf(readBundleManifest(entriesOf(files as Record<string, string>)))).message).toContain(why);
});

test("a bundle for other platforms is refused", async () => {
  const refusal = await refusalOf(launchOf({ command: "c" }, { compatibility: { platforms: ["darwin"] } }));

  expect(refusal.message).toContain("it is for darwin, and this is linux");
});

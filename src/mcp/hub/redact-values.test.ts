import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { waitUntil } from "../../../test/fixtures/mcp-servers/stdio-fixtures.ts";
import {
  createTestHub,
  LEGACY_HELLO,
  localServer,
  remoteServer,
  startScriptedServer,
} from "../../../test/support/mcp-hub.ts";
import type { QmError } from "../../core/errors.ts";
import type { Launch } from "../server-spec.ts";
import { createValueRedactor, redactJson } from "./redact-values.ts";

const SECRETS: Record<string, string> = {
  TOKEN: "tok-abcdefgh12345",
  KEY: "key/with=signs-123",
  PASS: "pass-in-a-header-1",
  CLIENT: "client-secret-value",
  LEVEL: "debug",
};
const fill = (text: string) => text.replace(/(?<!\$)\$\{secret:(\w+)\}/g, (_, name: string) => SECRETS[name] ?? "");
const secret = (name: string) => `\${secret:${name}}`;

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "hub-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

test("hides values also in URL encoding, except short ones", () => {
  const hide = createValueRedactor({ KEY: "key/with=signs" }, { KEY: "another-value", LEVEL: "debug" });

  expect(hide("?k=key%2Fwith%3Dsigns&l=debug another-value")).toBe("?k=[KEY]&l=debug [KEY]");
  expect(redactJson({ "another-value": [{ a: "x another-value" }, 1, null] }, hide)).toEqual({
    "[KEY]": [{ a: "x [KEY]" }, 1, null],
  });
});

test.each([
  ["stderr", "process.stderr.write(said)"],
  ["stdout", "process.stdout.write(said)"],
])("redacts a filled argument in its %s", async (_, saying) => {
  const folder = await temporaryFolder();
  const program = join(folder, "tells.mjs");
  await writeFile(
    program,
    `const said = process.argv.slice(2).join(" ") + "\\n";\n${saying};\nprocess.exitCode = 1;\n`,
  );
  const args = [`--token=${secret("TOKEN")}`, secret("LEVEL"), `$${secret("KEY")}`];
  const { hub } = await createTestHub(localServer(program, {}, ...args), { fill, logFolder: folder });

  const failed = (await hub.connect("subject").catch((thrown: unknown) => thrown)) as QmError;

  expect(failed.message).toContain("--token=[secret:TOKEN] debug");
  expect(JSON.stringify([failed.toProblem(), hub.status("subject")])).not.toContain(SECRETS.TOKEN);
  if (saying.includes("stderr")) {
    const log = () => readFile(join(folder, "subject.log"), "utf8").catch(() => "");
    await waitUntil(async () => (await log()).includes("--token="));
    expect(await log()).not.toContain(SECRETS.TOKEN);
  }
});

test("redacts a filled reference in the name of a missing program", async () => {
  const launch: Launch = { kind: "stdio", command: `/nowhere/${secret("TOKEN")}`, args: [], env: {} };
  const { hub } = await createTestHub({ ...localServer("plain.mjs"), launch }, { fill });

  await expect(hub.connect("subject")).rejects.toMatchObject({
    message: expect.stringContaining("/nowhere/[secret:TOKEN]"),
    hint: expect.not.stringContaining(SECRETS.TOKEN as string),
  });
});

test("redacts everything a remote server was given in its errors and their data", async () => {
  const said = Object.values(SECRETS).join(" ");
  const { url, posted } = await startScriptedServer({
    initialize: LEGACY_HELLO,
    "tools/list": { tools: [{ name: "t", inputSchema: { type: "object" } }] },
    "tools/call": { error: { code: -32000, message: said, data: { [said]: [{ deep: said }] } } },
  });
  const launch: Launch = {
    kind: "http",
    url: `${url}?key=${secret("KEY")}&token=${secret("TOKEN")}`,
    headers: { "x-pass": `Basic ${secret("PASS")}` },
    oauth: { clientId: "mine", clientSecret: secret("CLIENT") },
  };
  const { call } = await createTestHub({ ...remoteServer(url), launch }, { fill });

  const failed = (await call("t").catch((thrown: unknown) => thrown)) as QmError;

  const shown = "[secret:TOKEN] [secret:KEY] [secret:PASS] [client secret] debug";
  expect(failed.message).toBe(`subject: ${shown}`);
  expect(failed.details.mcp_data).toEqual({ [shown]: [{ deep: shown }] });
  expect(posted.at(-1)?.headers["x-pass"]).toBe(`Basic ${SECRETS.PASS}`);
});

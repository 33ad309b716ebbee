import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { cleanUp, createTestFolder, qm } from "../testing.ts";
import type { DoctorCheck } from "./environment-checks.ts";

afterEach(cleanUp);

async function checkToken(token: string | undefined) {
  const web = token === undefined ? {} : { token: `\${env:WEB}` };
  const config = JSON.stringify({ gateway: { profiles: { web } } });
  const cwd = await createTestFolder({ "quartermaster.yaml": config });
  const { out } = await qm(cwd, ["doctor", "--json"], { env: { WEB: token } });
  if (token !== undefined && token.length > 6) expect(out).not.toContain(token);
  const { checks } = JSON.parse(out) as { checks: readonly DoctorCheck[] };
  return checks.filter(({ about }) => about === "profile");
}

test("reports a profile without a token", async () => {
  expect(await checkToken(undefined)).toEqual([
    {
      about: "profile",
      status: "warn",
      message: "web has no token: no client can use it over HTTP",
      todo: expect.stringContaining("gateway.profiles.web.token"),
    },
  ]);
});

test.each([
  ["changeme", "is a well-known placeholder"],
  ["secret", "is a well-known placeholder"],
  ["Token", "is a well-known placeholder"],
  ["my-secret-token-12345", "is a well-known placeholder"],
  ["kx81Lq", "has fewer than 16 characters"],
  ["0101010101010101", "has fewer than 6 different characters"],
])("reports the weak token %s without showing it", async (token, problem) => {
  expect(await checkToken(token)).toMatchObject([
    { status: "warn", message: `web: the token ${problem}`, todo: expect.stringContaining("openssl rand") },
  ]);
});

test.each(["Zk3-vQ8x_Lm2pR7t", "9f86d081884c7d659a2feaa0c55ad015", "the-token-of-one-reviewer"])(
  "accepts %s",
  async (token) => {
    expect(await checkToken(token)).toEqual([]);
  },
);

test("reports a weak token in the token file", async () => {
  const cwd = await createTestFolder({ "quartermaster.yaml": "{}" });
  await mkdir(join(cwd, ".quartermaster"));
  await writeFile(join(cwd, ".quartermaster/token"), "password-password\n");

  const { out } = await qm(cwd, ["doctor"]);

  expect(out).toMatch(/warn {2}profile {3}\S+token: the token is a well-known placeholder/);
  expect(out).not.toContain("password-password");
});

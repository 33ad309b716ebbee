import { existsSync, readFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { join, resolve } from "node:path";
import { afterEach, expect, test } from "vitest";
import { cleanUp, createTestFolder, qm } from "../src/cli/testing.ts";
import { compileDocument } from "../src/providers/api/compile-document.ts";
import { createSampleArguments } from "../src/providers/api/sample-arguments.ts";
import { openWorkspace } from "../src/workspace/workspace.ts";

const shared = resolve(import.meta.dirname, "../../shared/openapi");
const hasDocuments = existsSync(shared);
if (!hasDocuments) console.warn(`SKIPPED: the real OpenAPI documents are not in ${shared}`);

const closing: (() => void)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) close();
  await cleanUp();
});

async function listen(answer: (request: IncomingMessage, body: string) => [number, unknown]) {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const [status, body] = answer(request, Buffer.concat(chunks).toString());
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  closing.push(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test.skipIf(!hasDocuments).each([
  ["twilio-api-v2010.json.gz", "accountSid_authToken=SID:TOKEN", 197],
  ["openai.yaml.gz", "ApiKeyAuth=TOKEN", 288],
])(
  "imports %s and calls every operation with its credential",
  async (file, secret, count) => {
    const seen: string[] = [];
    const url = await listen((request) => {
      seen.push(`${request.method} ${request.url} ${request.headers.authorization?.split(" ")[0]}`);
      return [200, { echoed: request.headers.authorization }];
    });
    const cwd = await createTestFolder({ "quartermaster.yaml": "actors: { default: { tools: ['*'] } }\n" });
    const argv = [
      "import",
      "openapi",
      join(shared, file),
      "--name",
      "real",
      "--server",
      url,
      "--secret",
      secret,
      "--json",
    ];
    const extra = file.startsWith("openai") ? ["--secret", "AdminApiKeyAuth=TOKEN"] : [];
    const { code, out, err } = await qm(cwd, [...argv, ...extra]);
    expect([code, err]).toEqual([0, ""]);
    const report = JSON.parse(out);
    expect(report.operations).toHaveLength(count);
    expect(report.skipped).toEqual([]);

    const workspace = await openWorkspace({ cwd, env: {} });
    try {
      await workspace.secrets.set("SID", "AC-the-account");
      await workspace.secrets.set("TOKEN", "the-secret-token");
      const actions = workspace.quartermaster.inventory().filter(({ category }) => category === "api");
      expect(actions).toHaveLength(count);
      const failed: unknown[] = [];
      const compiled = JSON.parse(readFileSync(join(cwd, ".quartermaster/apis/real.json"), "utf8"));
      for (const { entry, schema } of compiled.operations) {
        const name = `api__real__${entry}`;
        const outcome = await workspace.quartermaster.invoke(name, createSampleArguments(schema));
        if (outcome.status !== "done") failed.push(`${name}: ${JSON.stringify(outcome).slice(0, 300)}`);
        expect(JSON.stringify(outcome)).not.toContain("the-secret-token");
      }
      expect(failed).toEqual([]);
      expect(seen).toHaveLength(count);
      expect(seen.every((line) => /(?:Basic|Bearer)$/.test(line) && !line.includes("{"))).toBe(true);
    } finally {
      await workspace.close();
    }
  },
  120_000,
);

test.each([
  ["a reference outside of it", { paths: { "/a": { $ref: "http://127.0.0.1/x.json" } } }, "outside of it"],
  ["no operations", { paths: {} }, "no operations"],
])("refuses a document with %s", async (_what, parts, message) => {
  await expect(compileDocument(JSON.stringify({ openapi: "3.0.0", ...parts }))).rejects.toThrow(message);
});

test("leaves out a path that leads elsewhere, and compiles references in a circle", async () => {
  const node = { type: "object", properties: { next: { $ref: "#/components/schemas/Node" } } };
  const post = { requestBody: { content: { "application/json": { schema: { $ref: "#/components/schemas/Node" } } } } };
  const document = {
    openapi: "3.1.0",
    servers: [{ url: "file:///etc" }],
    paths: { "/../admin": { get: {} }, "/nodes": { post } },
    components: { schemas: { Node: node } },
  };
  const { api, skipped } = await compileDocument(JSON.stringify(document));
  expect(api.server).toBeUndefined();
  expect(api.operations.map(({ entry }) => entry)).toEqual(["post_nodes"]);
  expect(skipped).toHaveLength(1);
});

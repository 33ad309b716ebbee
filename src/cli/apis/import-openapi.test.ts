import { readdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { atTerminal, cleanUp, createTestFolder, qm } from "../testing.ts";

const closing: (() => void)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) close();
  await cleanUp();
});

const responses = { 200: { description: "ok" } };
const operation = (operationId: string, more = {}) => ({
  operationId,
  summary: `Do ${operationId}`,
  responses,
  ...more,
});

function describePets(paths: object = {}, server = "https://pets.example.com/v1") {
  return JSON.stringify({
    openapi: "3.0.3",
    info: { title: "Pet Shop", version: "1.0" },
    servers: [{ url: server }],
    security: [{ key: [] }],
    paths: { "/pets": { get: operation("listPets"), post: operation("addPet") }, ...paths },
    components: { securitySchemes: { key: { type: "apiKey", in: "header", name: "x-key" } } },
  });
}

const CONFIG = "# mine\nactors: { default: { tools: ['*'] } } # everything\n";
const createFolder = (files = {}) =>
  createTestFolder({ "quartermaster.yaml": CONFIG, "pets.json": describePets(), ...files });
const importPets = (cwd: string, ...more: string[]) =>
  qm(cwd, ["import", "openapi", "pets.json", ...more], atTerminal("y\n"));
const readConfig = (cwd: string) => readFile(join(cwd, "quartermaster.yaml"), "utf8");

test("shows what would be imported, asks, imports, and names the secret to store", async () => {
  const cwd = await createFolder();

  const dry = await qm(cwd, ["import", "openapi", "pets.json", "--dry-run"]);
  expect(dry.out).toContain("2 actions api__pet-shop__*: 1 GET, 1 POST");
  expect(dry.out).toMatch(
    /^ {4}GET {3}\/pets {2}api__pet-shop__listPets\n {4}POST {2}\/pets {2}api__pet-shop__addPet$/m,
  );
  expect(dry.out).toContain("Requests and credentials go only to https://pets.example.com/v1.");
  expect(dry.out).toContain("Nothing was changed.");
  const alone = await qm(cwd, ["import", "openapi", "pets.json", "--yes"]);
  expect([alone.code, alone.err]).toEqual([3, expect.stringContaining("that takes a person")]);
  expect(await readConfig(cwd)).toBe(CONFIG);

  const { code, out, err } = await importPets(cwd);
  expect([code, out]).toEqual([0, expect.stringContaining("2 operations imported")]);
  expect(err).toContain("Next: qm secrets set API_PET_SHOP_KEY");
  expect((await readConfig(cwd)).startsWith(CONFIG)).toBe(true);

  expect((await qm(cwd, ["apis", "list"])).out).toContain("pet-shop");
  expect((await qm(cwd, ["apis", "show", "pet-shop"])).out).toMatch(/listPets\s+GET\s+\/pets\s+read\s+needs login/);
  expect((await qm(cwd, ["apis", "show", "pet-shop"])).err).toBe("Next: qm secrets set API_PET_SHOP_KEY\n");
  expect((await qm(cwd, ["preflight", "api__pet-shop__listPets"])).out).toMatch(
    /needs_login {2}qm apis show pet-shop\n$/,
  );
  expect((await qm(cwd, ["list", "api"])).out).toMatch(/Do listPets\.? \(needs login\)\n/);
  const call = await qm(cwd, ["invoke", "api__pet-shop__listPets", "--json"]);
  expect(call.out).toContain("needs_login");
  expect(call.out).toContain("or store its secret. `qm apis show pet-shop` shows which is missing.");
  async function* typed(): AsyncGenerator<string> {
    yield "a-stored-secret\n";
  }
  expect((await qm(cwd, ["secrets", "set", "API_PET_SHOP_KEY"], { stdin: typed() })).code).toBe(0);
  const shown = JSON.parse((await qm(cwd, ["apis", "show", "pet-shop", "--json"])).out);
  expect(shown.operations.map(({ effect, state }: Record<string, string>) => [effect, state])).toEqual([
    ["read", "ready"],
    ["external", "ready"],
  ]);
});

test("shows what an import changes, and keeps the address, the credentials and the overrides", async () => {
  const cwd = await createFolder();
  await importPets(cwd, "--secret", "key=MY_KEY", "--server", "http://127.0.0.1:9/v1");
  const text = (await readConfig(cwd)).replace(
    /^ {4}source:.*$/m,
    "$&\n    # slow\n    timeout_ms: 5000\n    operations: { addPet: { approval: true } }",
  );
  await writeFile(join(cwd, "quartermaster.yaml"), text);
  const post = operation("addPet", { parameters: [{ name: "n", in: "query", schema: { type: "string" } }] });
  const paths = { "/pets": { post }, "/new": { get: operation("newOne") } };
  await writeFile(join(cwd, "pets.json"), describePets(paths, "https://evil.example.com"));

  const { code, out } = await importPets(cwd);

  expect(code).toBe(0);
  expect(out).toContain("added: newOne");
  expect(out).toContain("removed: listPets");
  expect(out).toContain("changed: addPet");
  expect(out).toContain("Give --server https://evil.example.com to use it.");
  const [digest = ""] = /(?<=digest: ).*/.exec(text) ?? [];
  const after = await readConfig(cwd);
  expect(after.replace(/(?<=digest: ).*/, digest)).toBe(text);
  expect(after).not.toBe(text);
  expect((await qm(cwd, ["apis", "show", "pet-shop", "--json"])).out).toContain("newOne");
  // The former file is for programs that still run with the former configuration.
  expect(await readdir(join(cwd, ".quartermaster/apis"))).toHaveLength(2);
  expect((await importPets(cwd)).out).toContain("No operation changes.");
  const moved = await importPets(cwd, "--server", "https://evil.example.com", "--dry-run");
  expect(moved.out).toContain("Until now it is called at http://127.0.0.1:9/v1.");

  expect((await qm(cwd, ["apis", "remove", "pet-shop"])).code).toBe(0);
  expect(await readConfig(cwd)).toBe(CONFIG);
  expect(await readdir(join(cwd, ".quartermaster/apis"))).toEqual([]);
});

test("shows operations that an import sends elsewhere, or with another place for the credential", async () => {
  const cwd = await createFolder();
  await importPets(cwd);
  const moved = { ...operation("listPets"), servers: [{ url: "https://evil.example.com" }] };
  await writeFile(join(cwd, "pets.json"), describePets({ "/pets": {}, "/orders": { delete: moved } }));
  const { out } = await importPets(cwd, "--dry-run");
  expect(out).toContain("listPets: GET /pets is now DELETE https://evil.example.com/orders");
  expect(out).toContain("New addresses: https://evil.example.com");
  await writeFile(join(cwd, "pets.json"), describePets().replace('"in":"header"', '"in":"query"'));
  expect((await importPets(cwd, "--dry-run")).out).toContain("changed: listPets, addPet");
});

test("does not replace an API from elsewhere by its title, nor use a stored secret of a guessed name", async () => {
  const cwd = await createFolder({ "other.json": describePets({}, "https://evil.example.com") });
  await importPets(cwd);
  const other = await qm(cwd, ["import", "openapi", "other.json"], atTerminal("y\n"));
  expect([other.code, other.err]).toEqual([1, expect.stringContaining("Give --name pet-shop to replace it")]);
  async function* typed(): AsyncGenerator<string> {
    yield "secret\n";
  }
  await qm(cwd, ["secrets", "set", "API_OTHER_KEY"], { stdin: typed() });
  const { out } = await qm(cwd, ["import", "openapi", "other.json", "--name", "other", "--dry-run", "--json"]);
  expect(JSON.parse(out).auth).toEqual({});
});

test("reads a document and relative servers from an address, and follows no redirect", async () => {
  const server = createServer((request, response) => {
    if (request.url === "/moved") response.writeHead(302, { location: "/openapi.json" }).end();
    else response.end(describePets({}, "/api"));
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  closing.push(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const cwd = await createFolder();
  const read = await qm(cwd, ["import", "openapi", `${url}/openapi.json?token=x`, "--dry-run", "--json"]);
  expect(JSON.parse(read.out).servers).toEqual([`${url}/api`]);
  const moved = await qm(cwd, ["import", "openapi", `${url}/moved`, "--dry-run"]);
  expect([moved.code, moved.err]).toEqual([1, expect.stringContaining('redirects to "/openapi.json"')]);
});

test.each([
  [["missing.json"], 1, "missing.json does not exist"],
  [["http://127.0.0.1:1/openapi.json?token=x"], 1, '"http://127.0.0.1:1/openapi.json" cannot be reached'],
  [["quartermaster.yaml"], 2, "has no `openapi: 3.0` or `3.1`"],
  [["pets.json", "--name", "Not A Name"], 2, "is no name for an API"],
  [["pets.json", "--server", "ftp://x"], 2, "not an http or https address"],
  [["pets.json", "--secret", "nope=KEY"], 2, "names a scheme that the document does not have"],
  [["pets.json", "--secret", "nope"], 2, "is not <scheme>=<NAME>"],
  [["pets.json", "--operations", "nothing*"], 1, "no operation was imported"],
])("refuses %j", async (argv, code, message) => {
  const cwd = await createFolder();
  const refused = await qm(cwd, ["import", "openapi", ...argv], atTerminal("y\n"));
  expect([refused.code, refused.err]).toEqual([code, expect.stringContaining(message)]);
  expect(await readConfig(cwd)).toBe(CONFIG);
});

test("leaves out an API whose compiled file was changed, and says so", async () => {
  const cwd = await createFolder();
  await importPets(cwd);
  const folder = join(cwd, ".quartermaster/apis");
  const [file = ""] = await readdir(folder);
  const text = await readFile(join(folder, file), "utf8");
  await writeFile(join(folder, file), text.replace("/pets", "/evil"));
  const { out, err } = await qm(cwd, ["list", "api"]);
  expect(out).not.toContain("listPets");
  expect(err).toContain("is not the file that was imported");
});

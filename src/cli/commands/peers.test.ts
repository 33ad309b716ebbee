import { afterAll, describe, expect, test } from "vitest";
import { startServer } from "../../../test/support/local-server.ts";
import { answerJson, createTestCard } from "../../providers/peer/testing.ts";
import { cleanUp, createTestFolder, qm } from "../testing.ts";

afterAll(cleanUp);

async function createPeerFolder(more = "") {
  const host: string = await startServer((_request, response) => answerJson(response, createTestCard(origin)));
  const origin = `http://${host}`;
  const text = `peers:
  helper: { url: "${origin}", description: Helps. }
  locked: { url: "https://locked.example", token: "\${env:MISSING}" }
models: { default: { provider: openai-compatible, model: m, base_url: "http://127.0.0.1:1/v1" } }
actors: { reviewer: { tools: ["*"], description: Reviews texts. } }
${more}`;
  return { origin, folder: await createTestFolder({ "quartermaster.yaml": text }) };
}

describe("qm peers", () => {
  test("lists remote and local peers, and contacts none", async () => {
    const { folder, origin } = await createPeerFolder();

    const { out, code } = await qm(folder, ["peers", "list"]);
    const { peers } = JSON.parse((await qm(folder, ["peers", "list", "--json"])).out);

    expect(code).toBe(0);
    expect(out).toMatch(/^helper +remote +http:\/\/127\.0\.0\.1:\d+ +not checked +Helps\.$/m);
    expect(out).toMatch(/^reviewer +local +- +ready +Reviews texts\.$/m);
    expect(peers).toEqual([
      { name: "helper", kind: "remote", description: "Helps.", url: origin, readiness: "ready" },
      {
        name: "locked",
        kind: "remote",
        url: "https://locked.example",
        readiness: "unavailable",
        reason: expect.stringContaining("the environment variable MISSING is not set"),
      },
      { name: "reviewer", kind: "local", description: "Reviews texts.", readiness: "ready" },
    ]);
  });

  test("checks which peers can be reached", async () => {
    const { folder } = await createPeerFolder();

    expect((await qm(folder, ["peers", "list", "--check"])).out).toMatch(/^helper +remote +\S+ +ready +Helps\.$/m);
  });

  test("shows the card and the skills of a peer", async () => {
    const { folder, origin } = await createPeerFolder();

    const { out } = await qm(folder, ["peers", "show", "helper"]);
    const shown = JSON.parse((await qm(folder, ["peers", "show", "helper", "--json"])).out);

    expect(out).toContain(`helper: Tester\nAnswers tests.\naddress: ${origin}\nendpoint: ${origin}/rpc\n`);
    expect(out).toContain("skills:\n  echo: Repeats a text.");
    expect(shown).toMatchObject({ name: "helper", card: { skills: [{ id: "echo" }], streaming: true } });
  });

  test("exits with 4 for an unknown peer, and with 1 for one that cannot be reached", async () => {
    const { folder } = await createPeerFolder();

    expect(await qm(folder, ["peers", "show", "helpr"])).toMatchObject({
      code: 4,
      err: 'qm: no peer "helpr" is configured; did you mean helper?\n    `qm peers list` shows the peers.\n',
    });
    expect(await qm(folder, ["peers", "show", "locked"])).toMatchObject({ code: 2 });
  });

  test("says what a call without arguments lacks, with an example that has it", async () => {
    const { folder } = await createPeerFolder();

    const { err } = await qm(folder, ["invoke", "agent.peer__helper", "{}"]);

    expect(err).toMatch(/message is missing\n +For example: qm invoke agent.peer__helper '\{"message":/);
  });

  test("are checked by the doctor", async () => {
    const { folder } = await createPeerFolder("a2a: { enabled: true }");

    const { out } = await qm(folder, ["doctor"]);

    expect(out).toContain("helper: reachable, 1 skill\n");
    expect(out).toContain("locked: the peer locked cannot be used: peers.locked.token");
    expect(out).toContain("no agent can call: a2a.clients is empty");
  });
});

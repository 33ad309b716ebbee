import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Client } from "@modelcontextprotocol/client";
import { SkillsClient } from "@modelcontextprotocol/client/ext/skills";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { actionName } from "../../core/names.ts";
import type { PolicyOptions } from "../../policy/policy.ts";
import { createServedSkills } from "./served-skills.ts";
import { type GateOptions, openGate } from "./testing.ts";

const TRIAGE = "---\nname: triage\ndescription: Sort issues by age.\n---\n# Triage\n\nStart with the oldest.\n";
const SECRET = "---\nname: secret\ndescription: Hidden from most.\n---\nDo not tell.\n";
const FILES = {
  "triage/SKILL.md": TRIAGE,
  "triage/references/Q&A labels.md": "\uFEFFbug, idea",
  "triage/logo.png": Buffer.from([0x89, 0x50, 0xff, 0x00]),
  "secret/SKILL.md": SECRET,
};
const hideSecret: PolicyOptions = { rules: [{ name: "hide", rule: "tool.name == 'skill__secret'", effect: "hide" }] };

async function createSkillFolder(files: Readonly<Record<string, string | Uint8Array>> = FILES) {
  const folder = await mkdtemp(join(tmpdir(), "qm-served-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const write = async (name: string, content: string | Uint8Array) => {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), content);
  };
  for (const [name, content] of Object.entries(files)) await write(name, content);
  return { folder, write };
}

async function openSkillGate(options: GateOptions = {}, files?: Readonly<Record<string, string | Uint8Array>>) {
  const { folder, write } = await createSkillFolder(files);
  const gate = await openGate({ skills: folder, policy: hideSecret, ...options });
  return { ...gate, write };
}

const getUris = async (client: Client) => (await new SkillsClient(client).list()).skills.map(({ uri }) => uri);

describe.each(["legacy", "modern"] as const)("a %s client", (era) => {
  test("lists the visible skills and reads their files, verified by digest", async () => {
    const gate = await openSkillGate();
    const client = await gate.client(era);
    const skills = new SkillsClient(client);

    const { skills: entries } = await skills.list();
    const [triage] = entries;
    if (triage === undefined || triage.resources === "dynamic") throw new Error("no skill with files");

    expect(entries.map(({ uri }) => uri)).toEqual(["skill://triage/SKILL.md"]);
    expect(triage.frontmatter).toEqual({ name: "triage", description: "Sort issues by age." });
    expect((await skills.get(triage.uri)).skill).toEqual(triage);
    expect(await skills.read(triage)).toMatchObject({ text: TRIAGE, verified: true });
    for (const { uri } of triage.resources) expect(await skills.read(triage, uri)).toMatchObject({ verified: true });
    expect((await skills.read(triage, "logo.png")).bytes).toEqual(new Uint8Array(FILES["triage/logo.png"]));
    expect((await skills.read(triage, "references/Q%26A labels.md")).text).toBe("\uFEFFbug, idea");
  });

  test("gets the same answer for a hidden skill as for an unknown one", async () => {
    const gate = await openSkillGate();
    const client = await gate.client(era);
    const answer = (name: string) => async (ask: (uri: string) => Promise<unknown>) =>
      ask(`skill://${name}/SKILL.md`).then(String, (error) => String(error).replaceAll(name, "x"));
    const asks = [
      (uri: string) => client.readResource({ uri }),
      (uri: string) => new SkillsClient(client).get(uri),
      (uri: string) => client.readResource({ uri: uri.replace("/SKILL", "/../triage/SKILL") }),
    ];

    for (const ask of asks) {
      const hidden = await answer("secret")(ask);
      expect(hidden).toMatch(/error/i);
      expect(hidden).toBe(await answer("unknown")(ask));
    }
  });

  test("has each read in the ledger, as a call of the skill", async () => {
    const gate = await openSkillGate();
    const client = await gate.client(era);

    await client.readResource({ uri: "skill://triage/SKILL.md" });

    const events = await gate.qm.ledger.read({ type: "call.ended" });
    expect(events).toMatchObject([{ data: { action: "skill__triage", status: "done" } }]);
  });

  test("is refused when its budget is used up", async () => {
    const gate = await openSkillGate({ policy: { budgets: { session: { calls: 1 } } } });
    const client = await gate.client(era);
    await client.readResource({ uri: "skill://triage/SKILL.md" });

    await expect(client.readResource({ uri: "skill://triage/SKILL.md" })).rejects.toThrow(/budget/);
  });
});

test("serves the skills of the actor's world", async () => {
  const policy = { worlds: [{ name: "kitchen" }], world: "kitchen" };
  const gate = await openSkillGate({ policy, world: "kitchen" }, { "triage/SKILL.md": TRIAGE });
  const skills = new SkillsClient(await gate.client("modern"));

  const { skills: entries } = await skills.list();
  const [triage] = entries;
  if (triage === undefined) throw new Error("no skill");

  expect(entries.map(({ uri }) => uri)).toEqual(["skill://world.kitchen/triage/SKILL.md"]);
  expect((await skills.get(triage.uri)).skill).toEqual(triage);
  expect(await skills.read(triage)).toMatchObject({ text: TRIAGE, verified: true });
  expect(gate.problems).toEqual([]);
});

test("serves a file only by the URI that is listed", async () => {
  const client = await (await openSkillGate()).client("modern");

  for (const path of ["nothing.md", "%53KILL.md", "/SKILL.md", "../triage/SKILL.md", "SKILL.md?x", "SKILL.md#x"])
    await expect(client.readResource({ uri: `skill://triage/${path}` })).rejects.toThrow(/not found/i);
});

test("does not serve a skill whose use needs approval", async () => {
  const policy: PolicyOptions = { rules: [{ name: "ask", rule: "tool.name == 'skill__secret'", effect: "ask" }] };
  const gate = await openSkillGate({ policy });
  const client = await gate.client("modern");

  expect(await getUris(client)).toEqual(["skill://triage/SKILL.md"]);
  await expect(client.readResource({ uri: "skill://secret/SKILL.md" })).rejects.toThrow(/not found/i);
});

test("leaves out a skill that the extension cannot describe, and reports it once", async () => {
  const broken = "---\nname: two words\ndescription: A name with a space.\n---\nText\n";
  const gate = await openSkillGate({}, { "triage/SKILL.md": TRIAGE, "broken/SKILL.md": broken });
  const client = await gate.client("modern");

  expect(await getUris(client)).toEqual(["skill://triage/SKILL.md"]);
  await getUris(client);
  expect(gate.problems).toEqual([expect.stringContaining("skill__broken is not served as a skill")]);
});

test("lists a skill as soon as its files may be used, without a change of them", async () => {
  const problems: string[] = [];
  let isAccepted = false;
  const read = async () => {
    if (!isAccepted) throw new Error("not accepted");
    return new Map([["SKILL.md", Buffer.from(TRIAGE)]]);
  };
  const files = async () => ({ version: "1", read });
  const triage = { name: actionName("skill", "triage"), entry: "triage", description: "Sort issues.", files };
  const served = createServedSkills({ skills: () => [triage] }, (problem) => problems.push(problem));
  const caller = { actor: "default", session: "s" };

  expect(await served.list(caller)).toEqual({ skills: [] });
  expect(await served.list(caller)).toEqual({ skills: [] });
  isAccepted = true;
  expect(await served.list(caller)).toMatchObject({ skills: [{ uri: "skill://triage/SKILL.md" }] });
  expect(problems).toEqual(["skill__triage is not served as a skill: not accepted"]);
});

test("lists a changed file with its new digest", async () => {
  const gate = await openSkillGate();
  const client = await gate.client("modern");
  const skills = new SkillsClient(client);
  const [before] = (await skills.list()).skills;

  await gate.write("triage/logo.png", "another picture");

  const [after] = (await skills.list()).skills;
  if (before === undefined || after === undefined) throw new Error("no skill");
  expect(after.resources).not.toEqual(before.resources);
  await expect(skills.read(before, "logo.png")).rejects.toMatchObject({ name: "SkillVerificationError" });
  expect(await skills.read(after, "logo.png")).toMatchObject({ text: "another picture", verified: true });
});

test("lists many skills page by page", async () => {
  const names = Array.from({ length: 101 }, (_, at) => `s${String(at).padStart(3, "0")}`);
  const files = names.map((name) => [`${name}/SKILL.md`, `---\nname: ${name}\ndescription: One of many.\n---\n`]);
  const gate = await openSkillGate({}, Object.fromEntries(files));
  const client = await gate.client("modern");

  expect(await getUris(client)).toEqual(names.map((name) => `skill://${name}/SKILL.md`));
});

test("tells a client of the legacy era that its skills changed", async () => {
  const gate = await openSkillGate();
  const changed = vi.fn();
  const client = await gate.client("legacy");
  client.setNotificationHandler("notifications/resources/list_changed", changed);
  await getUris(client);

  gate.qm.usePolicy({});

  await vi.waitFor(() => expect(changed).toHaveBeenCalledOnce());
  expect(await getUris(client)).toEqual(["skill://secret/SKILL.md", "skill://triage/SKILL.md"]);
});

test("announces skills only where the profile has a surface", async () => {
  const { folder } = await createSkillFolder();
  const profiles = { t: {}, through: { name: "through", passThrough: ["*"] } };
  const gate = await openGate({ skills: folder, profiles });
  const through = await gate.client("modern", "through");

  expect(new SkillsClient(await gate.client("modern")).supported).toBe(true);
  expect(new SkillsClient(through).supported).toBe(false);
  await expect(through.readResource({ uri: "skill://triage/SKILL.md" })).rejects.toThrow();
});

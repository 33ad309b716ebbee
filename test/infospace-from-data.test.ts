import { afterEach, expect, test } from "vitest";
import { closeWorlds, me, world } from "./fixtures/infospace-world.ts";

afterEach(closeWorlds);

test("handles inside a result cannot select the caller's notes", async () => {
  const w = await world();
  const secret = await w.done("infospace__create-note", { value: "mine alone" });
  const secrets = await w.done("infospace__create-collection", { items: ["also mine"] });
  const handles = [String(secret.handle), String(secrets.handle)];
  const hostile = await w.qm.notes.write({ list: handles, one: handles[0], args: { target: handles[0] } }, {}, me);
  const from = (path?: string) => ({ $from: hostile.handle, ...(path === undefined ? {} : { path }) });

  const made = await w.done("infospace__create-collection", { items: from("list") });
  expect(await w.qm.notes.read(String(made.handle), {}, me)).toEqual(handles);
  expect(made.note).toContain("notes takes handles");
  for (const [action, args] of [
    ["create-collection", { notes: from("list") }],
    ["create-collection", { notes: [from("one")] }],
    ["add", { target: made.handle, notes: from("one") }],
    ["remove", { target: made.handle, notes: from("list") }],
    ["remove", { target: from("one") }],
    ["load", { target: from("one") }],
    ["load", from("args")],
    ["save", { target: { ...from("list"), as: "text" } }],
  ] as const) {
    expect(await w.call(`infospace__${action}`, args), action).toMatchObject({ error: { code: "invalid_arguments" } });
  }

  const both = await w.done("infospace__create-collection", { notes: [{ $from: handles[0] }, handles[1]] });
  expect(await w.qm.notes.read(String(both.handle), {}, me)).toEqual(["mine alone", "also mine"]);
});

test("load reports the range that the model sees, even with a small value limit", async () => {
  const w = await world({ valueLimit: 256 });
  const text = "a word or two, ".repeat(60);
  const { handle } = await w.done("infospace__create-note", { value: text });

  const { value, data } = (await w.call("infospace__load", { target: handle })) as {
    value: string;
    data: { to: number };
  };

  expect(JSON.parse(value)).toMatchObject({ text: text.slice(0, data.to), total: text.length, more: true });
});

import { describe, expect, test } from "vitest";
import { signApprovalLink } from "../approval/approval-link.ts";
import { ANN, type Got, KEY, openTestApi } from "./testing.ts";

type TestApi = Awaited<ReturnType<typeof openTestApi>>;

function tokenFor(id: string, given: { approver?: string; roles?: readonly string[]; expires?: Date } = {}): string {
  const { approver = "ann", roles = ["approver"], expires = new Date(Date.now() + 60_000) } = given;
  return signApprovalLink(KEY, { approvalId: id, approver, roles, expires });
}

const look = (api: TestApi, token: string): Promise<Got> => api.send(`/approve?t=${token}`);

function submit(
  api: TestApi,
  fields: Record<string, string> | string,
  headers: Record<string, string> = {},
): Promise<Got> {
  return api.send("/approve", {
    method: "POST",
    headers: { "content-type": "application/x-www-form-urlencoded", origin: api.origin, ...headers },
    body: typeof fields === "string" ? fields : new URLSearchParams(fields).toString(),
  });
}

describe("the page", () => {
  test("shows the exact call and two buttons, and changes nothing", async () => {
    const api = await openTestApi();
    const { id } = api.approvals.ask({
      args: { to: "bob@example.com", body: "Hello" },
      preview: "Sends one mail.",
      actor: "mailer",
      user: "eve",
    });
    const token = tokenFor(id);

    const pages = [await look(api, token), await look(api, token)];

    for (const { status, body } of pages) {
      expect(status).toBe(200);
      for (const part of ["mail__send", "bob@example.com", "Sends one mail.", "actor mailer", "user eve", "as ann"])
        expect(body).toContain(part);
      expect(body).toContain(`<input type="hidden" name="t" value="${token}">`);
      expect(body.match(/<button name="decision" value="(approve|deny)">/g)).toHaveLength(2);
    }
    expect(await api.approvals.get(id)).toMatchObject({ state: "pending" });
    expect((await api.send(`/approve?t=${token}`, { method: "HEAD" })).status).toBe(405);
    expect(await api.approvals.get(id)).toMatchObject({ state: "pending" });
  });

  test("has headers against scripts, frames, caches and referrers", async () => {
    const api = await openTestApi();
    const { headers, body } = await look(api, tokenFor(api.approvals.ask().id));

    const policy = String(headers["content-security-policy"]);
    expect(policy).toMatch(/^default-src 'none'; style-src 'sha256-[\w+/=]+'; /);
    expect(policy).toContain("form-action 'self'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(headers).toMatchObject({
      "cache-control": "no-store",
      "x-frame-options": "DENY",
      "x-content-type-options": "nosniff",
      "referrer-policy": "same-origin",
      "content-type": "text/html; charset=utf-8",
    });
    expect(body).not.toMatch(/<script|<link|<img|<iframe|https?:\/\/|style="|\son\w+=/i);
  });

  test("has the style that its content security policy allows", async () => {
    const api = await openTestApi();
    const { headers, body } = await look(api, tokenFor(api.approvals.ask().id));
    const [, style = ""] = /<style>(.*?)<\/style>/s.exec(body) ?? [];
    const digest = Buffer.from(await crypto.subtle.digest("SHA-256", Buffer.from(style))).toString("base64");

    expect(headers["content-security-policy"]).toContain(`'sha256-${digest}'`);
  });
});

describe("the form", () => {
  test("approves as the link's approver, and shows the outcome", async () => {
    const api = await openTestApi();
    const { id } = api.approvals.ask();

    const got = await submit(api, { t: tokenFor(id), decision: "approve", reason: " go on " });

    expect(got).toMatchObject({ status: 200, body: expect.stringContaining("It has run, and is done.") });
    expect(api.approvals.runs).toEqual([id]);
    expect(await api.approvals.get(id)).toMatchObject({
      answer: { decision: "approved", by: "ann", via: "link", reason: "go on" },
    });
  });

  test("denies, and nothing runs", async () => {
    const api = await openTestApi();
    const { id } = api.approvals.ask();

    const got = await submit(api, { t: tokenFor(id), decision: "deny" });

    expect(got).toMatchObject({ status: 200, body: expect.stringContaining("It will not run.") });
    expect(await api.approvals.get(id)).toMatchObject({ state: "denied" });
    expect(await api.approvals.run()).toBe(0);
  });

  test("counts once, and says who was first", async () => {
    const api = await openTestApi();
    const { id } = api.approvals.ask();
    const fields = { t: tokenFor(id), decision: "approve" };

    const twice = await Promise.all([submit(api, fields), submit(api, fields)]);
    const again = await look(api, fields.t);

    expect(twice.map(({ status }) => status).sort()).toEqual([200, 409]);
    expect(twice.find(({ status }) => status === 409)?.body).toContain("ann was first and has approved it");
    expect(api.approvals.runs).toEqual([id]);
    expect(again.body).toContain("ann was first");
    expect(again.body).not.toContain("<form");
  });

  test("and an answer over HTTP at the same time: one counts, and the other learns who was first", async () => {
    const api = await openTestApi({ roles: { ann: ["approver"], bob: ["approver"] } });
    for (let round = 0; round < 10; round++) {
      const { id } = api.approvals.ask();
      const [link, http] = await Promise.all([
        submit(api, { t: tokenFor(id, { approver: "bob" }), decision: "deny" }),
        api.send(`/v1/approvals/${id}`, {
          method: "POST",
          headers: { ...ANN, "content-type": "application/json" },
          body: '{"decision":"approve"}',
        }),
      ]);

      expect([link.status, http.status].sort()).toEqual([200, 409]);
      const { answer } = await api.approvals.get(id);
      expect((link.status === 409 ? link : http).body).toContain(`${answer?.by} was first`);
      expect(api.approvals.runs.includes(id)).toBe(answer?.decision === "approved");
    }
  });

  test("gives only roles that both the approver and the link have", async () => {
    const roles: Record<string, readonly string[]> = { ann: ["approver"], vic: ["viewer"] };
    const api = await openTestApi({ roles });
    const { id } = api.approvals.ask();
    const answer = (link: Parameters<typeof tokenFor>[1]) =>
      submit(api, { t: tokenFor(id, link), decision: "approve" });

    expect((await answer({ approver: "vic", roles: ["approver"] })).status).toBe(403);
    expect((await answer({ approver: "nobody", roles: ["admin"] })).status).toBe(403);
    expect((await answer({ roles: [] })).status).toBe(403);
    roles.ann = [];
    expect((await answer({})).status).toBe(403);
    expect(await api.approvals.get(id)).toMatchObject({ state: "pending" });
    roles.ann = ["approver"];
    expect((await answer({})).status).toBe(200);
  });

  test("is refused after the approval has expired", async () => {
    const api = await openTestApi();
    const { id } = api.approvals.ask({ expiresAt: "2020-01-01T00:00:00.000Z" });

    const got = await submit(api, { t: tokenFor(id), decision: "approve" });

    expect(got).toMatchObject({ status: 409, body: expect.stringContaining("nobody answered in time") });
  });

  test.each([
    ["no decision", {}],
    ["another one", { decision: "maybe" }],
    ["that of another interface", { decision: "approved" }],
  ])("with %s answers nothing", async (_which, fields) => {
    const api = await openTestApi();
    const { id } = api.approvals.ask();

    expect((await submit(api, { t: tokenFor(id), ...fields })).status).toBe(422);
    expect(await api.approvals.get(id)).toMatchObject({ state: "pending" });
  });

  test("with two decisions, or two links, answers nothing", async () => {
    const api = await openTestApi();
    const { id } = api.approvals.ask();
    const t = `t=${tokenFor(id)}`;

    expect((await submit(api, `${t}&decision=deny&decision=approve`)).status).toBe(422);
    expect((await submit(api, `${t}&${t}&decision=approve`)).status).toBe(403);
    expect(await api.approvals.get(id)).toMatchObject({ state: "pending" });
  });

  test("does not read the link from the query string", async () => {
    const api = await openTestApi();
    const { id } = api.approvals.ask();

    const got = await api.send(`/approve?t=${tokenFor(id)}&decision=approve`, {
      method: "POST",
      headers: { "content-type": "application/x-www-form-urlencoded" },
      body: "decision=approve",
    });

    expect(got.status).toBe(403);
  });

  test.each<[string, string | Buffer, Record<string, string>, number]>([
    ["json", '{"decision":"approve"}', { "content-type": "application/json" }, 415],
    ["a file", "x", { "content-type": "multipart/form-data; boundary=x" }, 415],
    ["bytes that are no text", Buffer.from([0x74, 0x3d, 0xff, 0xfe]), {}, 415],
    ["encodings that are none", "t=%ff%zz%&decision=approve", {}, 403],
    ["too much", `t=${"x".repeat(70_000)}`, {}, 413],
    ["too much, of a length that is not told", `t=${"x".repeat(70_000)}`, { "transfer-encoding": "chunked" }, 413],
    ["ten thousand fields", `${"a=b&".repeat(10_000)}t=x`, {}, 403],
  ])("of %s is refused", async (_which, body, headers, status) => {
    const api = await openTestApi();

    const got = await api.send("/approve", {
      method: "POST",
      headers: { "content-type": "application/x-www-form-urlencoded", ...headers },
      body,
    });

    expect(got.status).toBe(status);
    expect(got.headers["content-type"]).toBe("text/html; charset=utf-8");
    expect(api.problems).toEqual([]);
  });

  test.each(["https://evil.test", "null"])("from a page of %s is refused", async (origin) => {
    const api = await openTestApi();
    const { id } = api.approvals.ask();

    const got = await submit(api, { t: tokenFor(id), decision: "approve" }, { origin });

    expect(got.status).toBe(403);
    expect(await api.approvals.get(id)).toMatchObject({ state: "pending" });
  });

  test("works behind a proxy under the public name", async () => {
    const api = await openTestApi();
    const { id } = api.approvals.ask();

    const got = await submit(api, { t: tokenFor(id), decision: "deny" }, { origin: "https://qm.example.com" });

    expect(got.status).toBe(200);
  });
});

describe("an invalid link", () => {
  const past = new Date(Date.now() - 1);
  const other = Buffer.alloc(32, 9);

  test("gets the same page for every reason, without a word about approvals", async () => {
    const api = await openTestApi();
    const { id } = api.approvals.ask({ args: { secret: "swordfish" } });
    const good = tokenFor(id);
    const tokens = [
      "",
      "x",
      `${good}x`,
      good.slice(1),
      "%00%0d%0aSet-Cookie:%20a=b",
      "%3Cscript%3Ealert(1)%3C/script%3E",
      "x".repeat(10_000),
      tokenFor(id, { expires: past }),
      tokenFor("no-such-approval"),
      signApprovalLink(other, {
        approvalId: id,
        approver: "ann",
        roles: ["admin"],
        expires: new Date(Date.now() + 60_000),
      }),
    ];

    const pages = await Promise.all([...tokens.map((token) => look(api, token)), api.send("/approve")]);
    const forms = await Promise.all(
      tokens.map((token) => submit(api, { t: decodeURIComponent(token), decision: "approve" })),
    );

    expect(new Set([...pages, ...forms].map(({ status }) => status))).toEqual(new Set([403]));
    expect(new Set([...pages, ...forms].map(({ body }) => body)).size).toBe(1);
    expect(pages[0]?.body).not.toMatch(/swordfish|mail__send|ann/);
    for (const { headers } of pages) expect(headers).not.toHaveProperty("set-cookie");
    expect(await api.approvals.get(id)).toMatchObject({ state: "pending" });
  });
});

describe("foreign text cannot become markup", () => {
  const hostile = `</pre></dd><script>alert(1)</script><img src=x onerror=alert(1)>"'&<b>\u202Eevil\u0000\u001B[2J`;

  test("in the question and in the outcome", async () => {
    const api = await openTestApi({ roles: { [hostile]: ["approver"], ann: ["approver"] } });
    const { id } = api.approvals.ask({
      action: hostile,
      args: { [hostile]: hostile },
      preview: hostile,
      reason: hostile,
      level: "user",
      rule: hostile,
      actor: hostile,
      session: hostile,
      user: hostile,
      person: hostile,
      tenant: hostile,
    });
    const t = tokenFor(id, { approver: hostile });

    const bodies = [
      await look(api, t),
      await submit(api, { t: tokenFor(id, { roles: [] }), decision: "deny" }),
      await submit(api, { t, decision: "deny", reason: hostile }),
      await submit(api, { t: tokenFor(id), decision: "deny" }),
      await look(api, t),
    ].map(({ body }) => body);

    for (const body of bodies) {
      expect(body).toContain("&lt;script&gt;");
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there
      expect(body).not.toMatch(/<script|<img|<b>|\u202E|\u0000|\u001B/);
    }
  });

  test("nor in the attribute that holds the link", async () => {
    const api = await openTestApi();

    const { body } = await look(api, encodeURIComponent('"><script>alert(1)</script>'));

    expect(body).not.toContain("<script");
  });
});

test("names the allowed methods for another one", async () => {
  const api = await openTestApi();

  expect(await api.send("/approve", { method: "PUT" })).toMatchObject({
    status: 405,
    headers: { allow: "GET, POST" },
  });
});

test("reports an internal error, and does not show it to the client", async () => {
  const api = await openTestApi();
  const { id } = api.approvals.ask();
  api.approvals.get = async () => {
    throw new Error("disk on fire");
  };

  const got = await look(api, tokenFor(id));

  expect(got.status).toBe(500);
  expect(got.body).not.toContain("fire");
  expect(api.problems).toEqual([expect.stringContaining("fire")]);
});

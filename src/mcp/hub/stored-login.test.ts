import { createHash, randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { describe, expect, test } from "vitest";
import { waitUntil } from "../../../test/fixtures/mcp-servers/stdio-fixtures.ts";
import {
  createMemorySecrets,
  createTestHub,
  LEGACY_HELLO,
  localServer,
  remoteServer,
  startListening,
} from "../../../test/support/mcp-hub.ts";
import type { QmError } from "../../core/errors.ts";
import type { ServerSpec } from "../server-spec.ts";
import { createOAuthFetch } from "./stored-login.ts";

interface Guarded {
  readonly url: string;
  readonly issuer: string;
  /** Paths that were asked for, with the parameters of token requests. */
  readonly asked: {
    readonly path: string;
    readonly form: URLSearchParams;
    readonly headers: IncomingMessage["headers"];
  }[];
  /** Access tokens that are good, and the scope of each. */
  readonly good: Map<string, string>;
  readonly refreshable: Set<string>;
  /** The scopes that every client is granted, regardless of its request. */
  granted?: string;
  refuses: boolean;
}

/** A server that wants a login, and beside it the authorization server it names. Refresh tokens are good once. */
async function guarded(): Promise<Guarded> {
  const asked: Guarded["asked"] = [];
  const codes = new Map<string, { challenge: string; scope: string }>();
  const state = {
    asked,
    good: new Map<string, string>(),
    refreshable: new Set<string>(),
    refuses: false,
    url: "",
    issuer: "",
  };
  const reply = (response: ServerResponse, body: object, status = 200) =>
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  const grant = (response: ServerResponse, scope: string) => {
    const [access_token, refresh_token] = [`access-${randomUUID()}`, `refresh-${randomUUID()}`];
    state.good.set(access_token, (state as Guarded).granted ?? scope);
    state.refreshable.add(refresh_token);
    reply(response, { access_token, refresh_token, token_type: "Bearer", expires_in: 3600, scope });
  };
  const unauthorized = (response: ServerResponse, status: number, challenge: string) => {
    const metadata = `resource_metadata="${state.issuer}/.well-known/oauth-protected-resource/mcp"`;
    response.writeHead(status, { "www-authenticate": `Bearer ${challenge}, ${metadata}` }).end();
  };
  const server = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "/", state.issuer);
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks).toString("utf8");
    const form = new URLSearchParams(pathname === "/token" ? body : "");
    asked.push({ path: pathname, form, headers: request.headers });
    switch (pathname) {
      case "/.well-known/oauth-protected-resource/mcp":
        return reply(response, { resource: state.url, authorization_servers: [state.issuer] });
      case "/.well-known/oauth-authorization-server":
        return reply(response, {
          issuer: state.issuer,
          authorization_endpoint: `${state.issuer}/authorize`,
          token_endpoint: `${state.issuer}/token`,
          registration_endpoint: `${state.issuer}/register`,
          response_types_supported: ["code"],
          code_challenge_methods_supported: ["S256"],
          authorization_response_iss_parameter_supported: true,
        });
      case "/register":
        return reply(response, { ...JSON.parse(body), client_id: "registered" }, 201);
      case "/authorize": {
        const back = new URL(searchParams.get("redirect_uri") ?? "");
        const code = randomUUID();
        codes.set(code, {
          challenge: searchParams.get("code_challenge") ?? "",
          scope: searchParams.get("scope") ?? "",
        });
        back.search = new URLSearchParams({
          state: searchParams.get("state") ?? "",
          iss: state.issuer,
          ...(state.refuses ? { error: "access_denied", error_description: "no" } : { code }),
        }).toString();
        return response.writeHead(302, { location: back.href }).end();
      }
      case "/token": {
        if (form.get("grant_type") === "refresh_token")
          return state.refreshable.delete(form.get("refresh_token") ?? "")
            ? grant(response, "basic")
            : reply(response, { error: "invalid_grant", error_description: "used" }, 400);
        const issued = codes.get(form.get("code") ?? "");
        const verified = createHash("sha256")
          .update(form.get("code_verifier") ?? "")
          .digest("base64url");
        return issued?.challenge === verified
          ? grant(response, issued.scope)
          : reply(response, { error: "invalid_grant" }, 400);
      }
      default: {
        const scope = state.good.get((request.headers.authorization ?? "").replace("Bearer ", ""));
        if (scope === undefined) return unauthorized(response, 401, 'scope="basic"');
        if (request.method !== "POST") return response.writeHead(405).end();
        const { id, method, params } = JSON.parse(body);
        if (params?.name === "admin" && !scope.includes("admin"))
          return unauthorized(response, 403, 'error="insufficient_scope", scope="admin"');
        if (id === undefined) return response.writeHead(202).end();
        const results: Record<string, object> = {
          initialize: LEGACY_HELLO,
          "tools/list": { tools: [] },
          "tools/call": { content: [], scope },
        };
        const result = results[method];
        return reply(response, {
          jsonrpc: "2.0",
          id,
          ...(result ? { result } : { error: { code: -32601, message: "no" } }),
        });
      }
    }
  });
  state.url = (await startListening(server)).url;
  state.issuer = new URL(state.url).origin;
  return state;
}

/** A person with a browser. */
const follow = async (page: URL) => {
  const response = await fetch(page);
  await response.text();
};

async function setUp(
  given: Partial<Parameters<typeof createTestHub>[1] & object> = {},
  spec?: (url: string) => ServerSpec,
) {
  const server = await guarded();
  const kept = new Map<string, string>();
  const tested = await createTestHub(spec?.(server.url) ?? remoteServer(server.url), {
    secrets: createMemorySecrets(kept),
    ...given,
  });
  return { server, kept, ...tested };
}

const tokenRequests = (server: Guarded, type: string) =>
  server.asked.filter(({ path, form }) => path === "/token" && form.get("grant_type") === type);

describe("a call", () => {
  test("without a login fails with needs_login and registers no client", async () => {
    const { server, hub, call } = await setUp();

    await expect(call("t")).rejects.toMatchObject({
      code: "needs_login",
      hint: "A person must log in to it first.",
      hintTemplate: expect.stringContaining("{qm servers login subject}"),
    });

    expect(hub.status("subject")).toMatchObject({ state: "needs_login" });
    expect(server.asked.map(({ path }) => path)).not.toContain("/register");
  });

  test("works after a login", async () => {
    const { server, hub, call, kept } = await setUp();
    await call("t").catch(() => undefined);

    await hub.login("subject", follow);

    expect(hub.status("subject").state).toBe("idle");
    expect(await call("t")).toMatchObject({ scope: "basic" });
    expect([...kept.keys()]).toEqual(["oauth.subject"]);
    const registered = server.asked.filter(({ path }) => path === "/register");
    expect(registered).toHaveLength(1);
  });

  test("refreshes an expired token", async () => {
    const { server, hub, call } = await setUp();
    await hub.login("subject", follow);
    await call("t");

    server.good.clear();
    await Promise.all([call("t"), call("t"), call("t")]);

    expect(tokenRequests(server, "refresh_token")).toHaveLength(1);
  });

  test("works when two processes refresh at once", async () => {
    const { server, hub, call, kept } = await setUp();
    await hub.login("subject", follow);
    const other = await createTestHub(remoteServer(server.url), { secrets: createMemorySecrets(kept) });
    await Promise.all([call("t"), other.call("t")]);

    server.good.clear();
    await Promise.all([call("t"), other.call("t")]);

    const { tokens } = JSON.parse(kept.get("oauth.subject") ?? "{}");
    expect(server.good.has(tokens.access_token)).toBe(true);
    expect(server.refreshable.has(tokens.refresh_token)).toBe(true);
    expect([hub, other.hub].map((each) => each.status("subject").state)).toEqual(["ready", "ready"]);
  });

  test("needs a login again after a revocation, and shows no secret", async () => {
    const { server, hub, call, kept, events } = await setUp();
    await hub.login("subject", follow);
    await call("t");
    const before = JSON.parse(kept.get("oauth.subject") ?? "{}").tokens;

    server.good.clear();
    server.refreshable.clear();
    const failed = (await call("t").catch((thrown: unknown) => thrown)) as QmError;

    expect(failed.code).toBe("needs_login");
    expect(hub.status("subject").state).toBe("needs_login");
    const said = JSON.stringify([failed.toProblem(), events, hub.status("subject")]);
    for (const secret of [before.access_token, before.refresh_token]) expect(said).not.toContain(secret);
    await hub.login("subject", follow);
    expect(await call("t")).toMatchObject({ scope: "basic" });
  });

  test("that needs more scopes asks for a login with both", async () => {
    const { hub, call } = await setUp();
    await hub.login("subject", follow);

    await expect(call("admin")).rejects.toMatchObject({ code: "needs_login" });
    let shown: string | null = null;
    await hub.login("subject", async (page) => {
      shown = page.searchParams.get("scope");
      await follow(page);
    });

    expect(shown).toBe("basic admin");
    expect(await call("admin")).toMatchObject({ scope: "basic admin" });
  });

  test("fails without asking for a login if the scope was not granted before", async () => {
    const { server, hub, call } = await setUp();
    (server as { granted?: string }).granted = "basic";
    await hub.login("subject", follow);
    await call("admin").catch(() => undefined);
    await hub.login("subject", follow);

    await expect(call("admin")).rejects.toMatchObject({
      code: "server_failed",
      message: expect.stringContaining("scope"),
    });
  });

  test("never sends a token to another address of the same name", async () => {
    const { hub, call, kept } = await setUp();
    await hub.login("subject", follow);
    await call("t");
    const other = await guarded();

    await hub.configure([remoteServer(other.url)]);
    await expect(call("t")).rejects.toMatchObject({ code: "needs_login" });

    expect(kept.get("oauth.subject")).toBeDefined();
    expect(other.asked.filter(({ headers }) => headers.authorization !== undefined)).toEqual([]);
  });
});

test("sends no configured header to an authorization server, and no login over plain HTTP", async () => {
  const { server, hub, call } = await setUp({}, (url) => {
    const spec = remoteServer(url);
    return { ...spec, launch: { ...spec.launch, headers: { "x-api-key": "for the server alone" } } as never };
  });
  await hub.login("subject", follow);
  await call("t");
  server.good.clear();
  await call("t");

  const told = server.asked.filter(({ headers }) => headers["x-api-key"] !== undefined).map(({ path }) => path);
  expect([...new Set(told)]).toEqual(["/mcp"]);
  const fetchFor = createOAuthFetch(new URL("https://example.com/mcp"));
  await expect(fetchFor("http://10.0.0.1/token")).rejects.toThrow(/not https/);
  await expect(fetchFor("http://127.0.0.1:1/token")).rejects.toThrow(/not https/);
});

describe("logging in", () => {
  test("registers as a native client", async () => {
    const { server, hub } = await setUp();
    const pages: URL[] = [];

    await hub.login("subject", async (page) => {
      pages.push(page);
      await follow(page);
    });

    const back = new URL(pages[0]?.searchParams.get("redirect_uri") ?? "");
    expect(back.hostname).toBe("127.0.0.1");
    expect(back.pathname).toMatch(/^\/callback\/[\w-]{20,}$/);
    expect(pages[0]?.searchParams.get("code_challenge_method")).toBe("S256");
    expect(pages[0]?.searchParams.get("resource")).toBe(server.url);
    await expect(fetch(back)).rejects.toThrow();
  });

  test("refuses a redirect without its state and waits for the right one", async () => {
    const { hub, call } = await setUp();
    const statuses: number[] = [];

    await hub.login("subject", async (page) => {
      const back = new URL(page.searchParams.get("redirect_uri") ?? "");
      for (const search of ["", "?code=forged", "?code=forged&state=guessed"])
        statuses.push((await fetch(new URL(search, back))).status);
      statuses.push((await fetch(new URL("/", back))).status);
      await follow(page);
    });

    expect(statuses).toEqual([400, 400, 400, 404]);
    expect(await call("t")).toBeDefined();
  });

  test("refuses a code of another issuer", async () => {
    const { hub } = await setUp();

    const failed = hub.login("subject", async (page) => {
      const back = new URL(page.searchParams.get("redirect_uri") ?? "");
      const state = page.searchParams.get("state") ?? "";
      back.search = new URLSearchParams({ code: "c", state, iss: "https://evil.example" }).toString();
      await follow(back);
    });

    await expect(failed).rejects.toMatchObject({ code: "needs_login", message: expect.stringContaining("ssuer") });
  });

  test("reports a refused login and keeps the previous tokens", async () => {
    const { server, hub, call } = await setUp();
    await hub.login("subject", follow);
    server.refuses = true;

    await expect(hub.login("subject", follow)).rejects.toMatchObject({
      code: "needs_login",
      message: expect.stringContaining("access_denied"),
    });
    expect(await call("t")).toMatchObject({ scope: "basic" });
  });

  test("can be cancelled", async () => {
    const { hub } = await setUp();
    const giveUp = new AbortController();
    let shown = false;

    const login = hub.login(
      "subject",
      () => {
        shown = true;
      },
      giveUp.signal,
    );
    const failed = expect(login).rejects.toMatchObject({ code: "cancelled" });
    await waitUntil(() => shown);
    giveUp.abort();

    await failed;
  });

  test("uses the configured client and sends its secret to no other issuer", async () => {
    const oauth = { clientId: "mine", clientSecret: "<secret>", scopes: ["one", "two"] };
    const { server, hub, call, kept } = await setUp(
      { fill: (text: string) => text.replace("<secret>", "hush-hush") },
      (url) => remoteServer(url, {}, oauth),
    );
    let shown: URL | undefined;

    await hub.login("subject", async (page) => {
      shown = page;
      await follow(page);
    });
    await call("t");
    const [exchange] = tokenRequests(server, "authorization_code");
    const other = await guarded();
    const record = JSON.parse(kept.get("oauth.subject") ?? "{}");
    kept.set("oauth.subject", JSON.stringify({ ...record, url: other.url }));
    await hub.configure([remoteServer(other.url, {}, oauth)]);
    const elsewhere = hub.login("subject", follow);

    expect(shown?.searchParams.get("client_id")).toBe("mine");
    expect(shown?.searchParams.get("scope")).toBe("one two");
    expect(new URL(shown?.searchParams.get("redirect_uri") ?? "").pathname).toBe("/callback");
    expect(Buffer.from((exchange?.headers.authorization ?? "").slice(6), "base64").toString()).toBe("mine:hush-hush");
    expect(server.asked.map(({ path }) => path)).not.toContain("/register");
    await expect(elsewhere).rejects.toMatchObject({ code: "needs_login" });
    expect(tokenRequests(other, "authorization_code")).toEqual([]);
  });

  test("deletes everything at logout", async () => {
    const { hub, call, kept } = await setUp();
    await hub.login("subject", follow);
    await call("t");

    await hub.logout("subject");

    expect([...kept.keys()]).toEqual([]);
    await expect(call("t")).rejects.toMatchObject({ code: "needs_login" });
  });

  test("fails for a local server", async () => {
    const { hub } = await createTestHub(localServer("plain.mjs"));

    await expect(hub.login("subject", follow)).rejects.toMatchObject({ code: "invalid_config" });
  });
});

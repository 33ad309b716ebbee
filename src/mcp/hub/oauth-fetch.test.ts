import { createServer } from "node:http";
import { expect, test } from "vitest";
import { startListening } from "../../../test/support/mcp-hub.ts";
import { createOAuthFetch } from "./stored-login.ts";

/** A server that sends everybody on, and notes what it was asked for. */
async function sendingOn(next: (path: string) => string | undefined) {
  const asked: string[] = [];
  const { url } = await startListening(
    createServer((request, response) => {
      const path = request.url ?? "";
      asked.push(`${request.method} ${path}`);
      const location = next(path);
      if (location === undefined) response.end("here");
      else response.writeHead(307, { location }).end();
    }),
  );
  return { url: new URL(url), asked };
}

test("follows a redirect to an allowed address", async () => {
  const { url, asked } = await sendingOn((path) => (path === "/mcp" ? "/there" : undefined));

  const response = await createOAuthFetch(url)(url);

  expect(await response.text()).toBe("here");
  expect(asked).toEqual(["GET /mcp", "GET /there"]);
});

test("does not follow a redirect to plain HTTP elsewhere", async () => {
  const { url } = await sendingOn(() => "http://10.0.0.1/keys");

  await expect(createOAuthFetch(url)(url)).rejects.toThrow(/http:\/\/10\.0\.0\.1, which is not https/);
});

test("does not redirect a POST, and stops at endless redirects", async () => {
  const { url, asked } = await sendingOn((path) => `${path}x`);

  const response = await createOAuthFetch(url)(url, { method: "POST", body: "code=secret" });
  await expect(createOAuthFetch(url)(url)).rejects.toThrow(/without end/);

  expect(response.status).toBe(307);
  expect(asked.filter((line) => line.startsWith("POST"))).toEqual(["POST /mcp"]);
  expect(asked.length).toBeLessThan(10);
});

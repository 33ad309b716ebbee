import { describe, expect, test } from "vitest";
import { indexServerWords, rankServers } from "./rank-servers.ts";

const servers = [
  ["io.github.a/postgres-mcp", "Postgres", "Query a database of customers."],
  ["io.github.b/sql-tools", "", "Query Postgres, MySQL and SQLite databases."],
  ["io.github.c/weatherMCPServer", "Weather", "Forecasts for cities."],
  ["com.postgres/blog", "", "Reads a blog."],
  ["jp.d/kensaku", "検索", "日本語の文書を検索するサーバー"],
  ["com.e/mcp-server", "", "An MCP server."],
].map(([name = "", title = "", description = ""]) =>
  indexServerWords({ name, title, description, version: "1", status: "active" }),
);

const names = (text: string) => rankServers(servers, text).map(({ server }) => server.name);

describe("ranking", () => {
  test("puts the name and title before the description, and both before the owner", () => {
    expect(names("postgres")).toEqual(["io.github.a/postgres-mcp", "io.github.b/sql-tools", "com.postgres/blog"]);
  });

  test("prefers servers with more of the words, and rare words to frequent ones", () => {
    expect(names("query mysql databases")[0]).toBe("io.github.b/sql-tools");
    expect(names("query forecast")[0]).toBe("io.github.c/weatherMCPServer");
  });

  test("reads names that run together, beginnings of words and plurals", () => {
    expect(names("weather")).toEqual(["io.github.c/weatherMCPServer"]);
    expect(names("forec")).toEqual(["io.github.c/weatherMCPServer"]);
    expect(names("city")).toEqual([]);
    expect(names("blogs")).toEqual(["com.postgres/blog"]);
  });

  test("reads scripts without spaces", () => {
    expect(names("文書")).toEqual(["jp.d/kensaku"]);
    expect(names("検索")).toEqual(["jp.d/kensaku"]);
  });

  test("finds a server by its whole name before all others", () => {
    expect(rankServers(servers, " COM.E/mcp-server")[0]).toMatchObject({
      server: { name: "com.e/mcp-server" },
      score: 1,
    });
  });

  test("finds all servers for an empty query, and none for stop words", () => {
    expect(names("")).toEqual([...names("  ")]);
    expect(names("")).toHaveLength(servers.length);
    expect(names("the mcp server")).toEqual([]);
    expect(names("?!")).toEqual([]);
  });

  test("scores from 0 to 1", () => {
    for (const text of ["postgres", "query databases", "a".repeat(5000), "b ".repeat(5000)])
      for (const { score } of rankServers(servers, text)) expect(score > 0 && score <= 1).toBe(true);
  });
});

import { createHmac } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type ApprovalLink, readApprovalLink, signApprovalLink } from "./approval-link.ts";

const key = Buffer.alloc(32, 7);
const now = new Date("2026-03-01T12:00:00Z");
const later = (ms: number) => new Date(now.getTime() + ms);
const link: ApprovalLink = { approvalId: "a-1", approver: "ann", roles: ["approver"], expires: later(60_000) };

test("reads back what was signed, with any names", () => {
  const names = fc.string({ unit: "grapheme", maxLength: 60 });
  fc.assert(
    fc.property(names, names, fc.array(names, { maxLength: 4 }), (approvalId, approver, roles) => {
      const given = { approvalId, approver, roles, expires: later(1) };

      expect(readApprovalLink(key, signApprovalLink(key, given), now)).toEqual(given);
    }),
  );
});

test("no two links have the same token", () => {
  const written = [
    link,
    { ...link, approvalId: "a-1,ann" },
    { ...link, approvalId: 'a-1","ann' },
    { ...link, approver: "ann,approver" },
    { ...link, roles: [] },
    { ...link, roles: ["app", "rover"] },
    { ...link, expires: later(60_001) },
  ].map((each) => signApprovalLink(key, each));

  expect(new Set(written).size).toBe(written.length);
});

test("the token is URL-safe", () => {
  expect(signApprovalLink(key, { ...link, approver: "Ann & <Bob>?" })).toMatch(/^[\w-]+\.[\w-]+$/);
});

test("is valid until it expires, and not at that moment", () => {
  const token = signApprovalLink(key, link);

  expect(readApprovalLink(key, token, later(59_999))).toEqual(link);
  expect(readApprovalLink(key, token, later(60_000))).toBeUndefined();
});

describe("rejects a token", () => {
  const token = signApprovalLink(key, link);
  const [payload = "", mac = ""] = token.split(".");
  const other = Buffer.from(JSON.stringify(["a-2", "ann", ["admin"], later(60_000).getTime()])).toString("base64url");

  test.each([
    ["without anything", ""],
    ["without its signature", payload],
    ["with an empty one", `${payload}.`],
    ["with the signature alone", `.${mac}`],
    ["with another content", `${other}.${mac}`],
    ["with more behind it", `${token}.x`],
    ["twice", `${token}.${token}`],
    ["with padding", `${token}=`],
    ["with a space", `${token} `],
    ["signed without saying what for", `${payload}.${createHmac("sha256", key).update(payload).digest("base64url")}`],
    ["of a strange alphabet", `${payload}.${"ü".repeat(43)}`],
    ["far too long", `${"A".repeat(100_000)}.${mac}`],
  ])("%s", (_how, text) => {
    expect(readApprovalLink(key, text, now)).toBeUndefined();
  });

  test("with any one character changed", () => {
    for (const at of token.split("").keys()) {
      const changed = `${token.slice(0, at)}${token[at] === "A" ? "B" : "A"}${token.slice(at + 1)}`;

      expect(readApprovalLink(key, changed, now)).toBeUndefined();
    }
  });

  test("under another key", () => {
    expect(readApprovalLink(Buffer.alloc(32, 8), token, now)).toBeUndefined();
  });
});

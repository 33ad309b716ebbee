import { expect, test } from "vitest";
import { parseFileValue } from "./file-keys.ts";
import { approvalsSchema } from "./limits-schema.ts";

test.each(["https://qm.example.com", "http://127.0.0.1:7420/box/"])("accepts the public URL %s", (public_url) => {
  expect(parseFileValue(approvalsSchema, { public_url })).toMatchObject({ data: { publicUrl: public_url } });
});

test.each(["qm.example.com", "localhost:7420", "ftp://qm.example.com", "https://x/?a", "https://x/#a", "https://"])(
  "rejects the public URL %s",
  (public_url) => {
    expect(parseFileValue(approvalsSchema, { public_url })).toMatchObject({
      issues: [{ path: ["public_url"], message: expect.stringContaining("expected the address") }],
    });
  },
);

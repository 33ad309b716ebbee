import fc from "fast-check";
import { expect, test } from "vitest";
import { listSecretForms, REDACTED_TEXT, redactSecrets, secretPrefixes } from "./secret-text.ts";

const redactText = (text: string, secrets: readonly string[] = []) =>
  redactSecrets(text, listSecretForms(secrets), Number.POSITIVE_INFINITY);

const prefixes = secretPrefixes.flatMap(([texts]) => texts.split(" "));

// Built at run time, so that secret scanners do not report this file.
const a = (length: number) => "aB3x".repeat(length).slice(0, length);
const pem = (kind: string, body: string) =>
  `-----BEGIN ${kind}PRIVATE KEY-----\n${body}\n-----END ${kind}PRIVATE KEY-----`;

test.each([
  ["an RSA key", `x ${pem("RSA ", a(300))} y`, "x [redacted] y"],
  ["a key without an end", `x -----BEGIN PRIVATE KEY-----\n${a(300)}`, "x [redacted]"],
  ["a JWT", `x eyJ${a(20)}.eyJ${a(30)}.${a(43)} y`, "x [redacted] y"],
  ["a bearer token", `Bearer ${a(12)} y`, "Bearer [redacted] y"],
  ["a bearer token in lower case", `bearer ${"q".repeat(24)}`, "bearer [redacted]"],
  ["a model provider's key", `x sk-proj-${a(30)} y`, "x [redacted] y"],
  ["a payment key", `x sk_live_${a(24)} y`, "x [redacted] y"],
  ["a GitHub token", `x ghp_${a(36)} y`, "x [redacted] y"],
  ["a fine-grained GitHub token", `x github_pat_${a(22)}_${a(59)} y`, "x [redacted] y"],
  ["a Slack token", `x xoxb-1234567890-${a(24)} y`, "x [redacted] y"],
  ["an AWS key", "x AKIAABCDEFGHIJKLMNOP y", "x [redacted] y"],
  ["a temporary AWS key", "x ASIAABCDEFGHIJKLMNOP y", "x [redacted] y"],
  ["a package registry's token", `x npm_${a(36)} y`, "x [redacted] y"],
  ["a key of Google", `x AIza${a(35)} y`, "x [redacted] y"],
  ["a key for payments on test data", `x rk_test_${a(24)} y`, "x [redacted] y"],
  ["a GitLab token", `x glpat-${a(20)} y`, "x [redacted] y"],
  ["a URL with a password", "see https://me:pa@ss@host.example/path y", "see https://[redacted]@host.example/path y"],
  ["a header", "curl -H 'Authorization: Basic dXNlcjpwYXNz' x", "curl -H 'Authorization: [redacted]' x"],
  ["a query parameter", "GET /x?token=abc&y=1", "GET /x?token=[redacted]&y=1"],
  ["a value that is part of its own name", "token=e, secret: secret", "token=[redacted], secret: [redacted]"],
  ["an environment variable", "DB_PASSWORD=hunter2 run", "DB_PASSWORD=[redacted] run"],
  ["a token of Google", `x ya29.${a(60)} y`, "x [redacted] y"],
  ["a storage key", `x;AccountKey=${a(86)}==;EndpointSuffix=y`, "x;AccountKey=[redacted];EndpointSuffix=y"],
  ["a header with cookies", "Cookie: sid=abc; theme=dark\nHost: x", "Cookie: [redacted]\nHost: x"],
  ["a header that sets a cookie", "set-cookie: sid=abc; Path=/", "set-cookie: [redacted]"],
  ["a cookie of curl", "curl -b 'sid=abc' x", "curl -b [redacted] x"],
  ["a model hub's token", `x hf_${a(34)} y`, "x [redacted] y"],
  ["a mail service's key", `x SG.${a(22)}.${a(43)} y`, "x [redacted] y"],
  ["a bot's token", `api.telegram.org/bot123456789:A${a(34)}/getMe`, "api.telegram.org/bot[redacted]/getMe"],
  [
    "a signed URL",
    `https://x.example/y?se=2026&sig=${a(40)}%3D&sp=r`,
    "https://x.example/y?se=2026&sig=[redacted]&sp=r",
  ],
  ["a presigned URL", `https://x.example/y?X-Amz-Signature=${a(64)}`, "https://x.example/y?X-Amz-Signature=[redacted]"],
  ["a user and password of curl", "curl -sS -u ann:hunter2 https://x", "curl -sS -u [redacted] https://x"],
  ["a quoted one", `curl --user "ann:hunter 2" https://x`, "curl --user [redacted] https://x"],
  ["a password of mysql", "mysql -u root -phunter2 db", "mysql -u root -p[redacted] db"],
  ["a password of mysqldump", "mysqldump -h x -p'hunter 2' db", "mysqldump -h x -p[redacted] db"],
  ["a password of sshpass", "sshpass -p hunter2 ssh x", "sshpass -p [redacted] ssh x"],
  ["a shop's token", `x shpat_${"0a".repeat(16)} y`, "x [redacted] y"],
  ["a webhook", `https://hooks.slack.com/services/T01234567/B01234567/${a(24)}`, "https://[redacted]"],
  ["JSON inside text", '{"password": "with \\"quotes\\" in it", "y": 1}', '{"password": [redacted], "y": 1}'],
])("redacts %s", (_what, text, expected) => {
  expect(redactText(text)).toBe(expected);
});

test.each([
  ...["a task-management-service-for-everyone", "max_tokens: 5", "the bearer of good news", "bearer token"],
  ...[
    "http://host.example:8080/a@b",
    "mail me@host.example",
    "risk-assessment-of-the-project",
    "eyJ",
    "secretary: Ann",
  ],
  ...[
    "mysql -p db",
    "ssh -p 2222 host && curl https://x",
    "docker run -u 1000:1000 image curl https://x",
    "curl -u 1000:1000",
    "mkdir -p a/b # then mysql",
    "cookie: a small text that a site stores",
    "Cookies are = to be eaten",
    "12:30:45 ERROR at line 5",
    "the hf_ prefix, SG. and ya29. are of tokens",
    "GET /search?sig=short&q=1",
    "import { api_org_names } from './api-org.ts'",
    "npm run build -- --sourcemap && git push origin feature/pat.next.release",
    "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
    "0198c0de-1a2b-7c3d-8e4f-5a6b7c8d9e0f",
    "Fixes #1234567890: Add a way to name the accounts",
  ],
])("leaves %j alone", (text) => {
  expect(redactText(text)).toBe(text);
});

test("redacts known secrets anywhere, also in JSON and URL form", () => {
  const secret = 'p"ss w/rd';
  const text = `${secret}, ${JSON.stringify(secret)}, ${encodeURIComponent(secret)}!${secret}${secret}`;

  expect(redactText(text, [secret, "short"])).toBe(
    `${REDACTED_TEXT}, "${REDACTED_TEXT}", ${REDACTED_TEXT}!${REDACTED_TEXT}${REDACTED_TEXT}`,
  );
});

test("covers secrets that overlap", () => {
  expect(redactText("xabcdefghiy", ["abcdef", "defghi"])).toBe("x[redacted]y");
  expect(redactText("xabcdefghiy", ["abcdefghi", "cdefgh"])).toBe("x[redacted]y");
});

test("leaves no part of a secret where the text is cut", () => {
  const secret = "0123456789";

  for (let limit = 0; limit < 30; limit++) {
    const cut = redactSecrets(`${"-".repeat(10)}${secret}${"-".repeat(40)}`, [secret], limit);

    expect(cut).not.toMatch(/01|89/);
    expect(cut).toContain("[cut: 60 characters in all]");
  }
  expect(redactSecrets("🦑🦑🦑", [], 3)).toBe("🦑… [cut: 6 characters in all]");
});

test("never lets a known secret through", () => {
  const secret = fc
    .string({ minLength: 6, unit: "binary" })
    .filter((text) => !`x${REDACTED_TEXT}x`.includes(text) && !/[[\]]/.test(text));
  fc.assert(
    fc.property(secret, fc.string(), fc.string(), fc.nat(60), (known, before, after, limit) => {
      expect(redactText(before + known + after, [known])).not.toContain(known);
      expect(redactSecrets(before + known + after, [known], limit)).not.toContain(known);
    }),
  );
});

test.each([
  ...[
    "-----BEGIN PRIVATE KEY",
    "-----BEGIN PRIVATE KEY----- -----END ",
    "eyJ-",
    "eyJaaaaaaaa.",
    "eyJaaaaaaaa.eyJ",
    "bearer ",
  ],
  ...[
    "sk-",
    "xoxb-",
    "://a:",
    "://",
    "a:b@",
    "password=",
    'password="',
    'password="\\',
    "authorization:",
    "token ",
    "   ",
    "AKIA",
  ],
  ...["curl -u ", "curl -u a:", "curl -b ", "mysql -p", 'mysql -p"\\', "sshpass -p ", "cookie: a", "cookie:", "?sig="],
  ...["12345:A", "1", "accountkey=", ...prefixes.flatMap((prefix) => [prefix, `${prefix}a`])],
])("takes linear time for many %j", (part) => {
  const text = part.repeat(400_000 / part.length);

  redactText(text); // Quadratic time would exceed the time limit of the test.
});

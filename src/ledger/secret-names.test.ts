import { expect, test } from "vitest";
import { createSecretNameMatcher } from "./secret-names.ts";

test.each([
  ...["password", "PASSWORD", "dbPassword", "db_password1", "userpassword", "passwd", "passphrase", "pwd"],
  ...["secret", "clientSecret", "client_secret", "secrets", "clientsecret"],
  ...["token", "accessToken", "access_token", "authtoken", "X-Auth-Token", "id_token"],
  ...["api_key", "apiKey", "APIKey", "apikey", "x-api-key", "OPENAI_API_KEY", "private_key", "awsSecretAccessKey"],
  ...["authorization", "Proxy-Authorization", "cookie", "Set-Cookie", "credentials"],
])("%s holds a secret", (name) => {
  expect(createSecretNameMatcher()(name)).toBe(true);
});

test.each([
  ...["tokens", "max_tokens", "maxTokens", "token_count", "tokenCount", "total_tokens", "token_limit", "tokenUsage"],
  ...["tokenizer", "secretary", "secret_name", "token_type", "tokenExpiresAt", "password_policy", "token_url"],
  ...["key", "keyboard", "primary_key", "author", "name", "path", "", "123", "compass", "constructor", "__proto__"],
])("%s does not hold a secret", (name) => {
  expect(createSecretNameMatcher()(name)).toBe(false);
});

test("accepts more names, in any spelling and inside longer ones", () => {
  const isSecret = createSecretNameMatcher(["ssn", "cardNumber"]);

  expect(["ssn", "user_SSN", "card_number", "CARD-NUMBER", "testCardNumber"].map(isSecret)).toEqual(
    Array(5).fill(true),
  );
  expect(["assn", "card", "number", "cardNumberless"].map(isSecret)).toEqual(Array(4).fill(false));
});

test("classifies any number of names", () => {
  const isSecret = createSecretNameMatcher();

  for (let at = 0; at < 3_000; at++) expect(isSecret(`field_x${"ab".repeat(at % 300)}`)).toBe(false);
  expect(isSecret("password")).toBe(true);
});

import { hash, timingSafeEqual } from "node:crypto";

/**
 * Finds whose a token is. Every token is compared, each in the same time however much of it is right, so that nobody learns
 * one from how long the answer takes.
 */
export function createTokenAuthorizer<Owner>(
  tokens: Iterable<readonly [token: string, owner: Owner]>,
): (token: string) => Owner | undefined {
  const known = [...tokens].map(([token, owner]) => ({ digest: digestToken(token), owner }));
  return (token) => {
    const given = digestToken(token);
    let found: Owner | undefined;
    for (const { digest, owner } of known) if (timingSafeEqual(digest, given)) found ??= owner;
    return found;
  };
}

function digestToken(token: string): Buffer {
  return hash("sha256", token, "buffer");
}

import { hash, timingSafeEqual } from "node:crypto";

/** Finds the owner of a token. Compares every token in constant time, so that timing reveals nothing. */
export function createTokenAuthorizer<Owner>(
  tokens: Iterable<readonly [token: string, owner: Owner]>,
): (token: string) => Owner | undefined {
  const digestToken = (token: string) => hash("sha256", token, "buffer");
  const known = [...tokens].map(([token, owner]) => ({ digest: digestToken(token), owner }));
  return (token) => {
    const digested = digestToken(token);
    let found: Owner | undefined;
    for (const { digest, owner } of known) if (timingSafeEqual(digest, digested)) found ??= owner;
    return found;
  };
}

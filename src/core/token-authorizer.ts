import { hash, timingSafeEqual } from "node:crypto";

/** Finds the owner of a token. Compares every token in constant time, so that timing reveals nothing. */
export function createTokenAuthorizer<Owner>(
  tokens: Iterable<readonly [token: string, owner: Owner]>,
): (token: string) => Owner | undefined {
  const known = [...tokens].map(([token, owner]) => ({ digest: digestToken(token), owner }));
  return (token) => {
    const digested = digestToken(token);
    let found: Owner | undefined;
    for (const { digest, owner } of known) if (timingSafeEqual(digest, digested)) found ??= owner;
    return found;
  };
}

const digestToken = (token: string): Buffer => hash("sha256", token, "buffer");

/** Finds the owner of a Bearer token. Without one, answer 401 with `challenge` as `WWW-Authenticate`. */
export function authorizeBearer<Owner>(
  header: string | null | undefined,
  authorize: (token: string) => Owner | undefined,
): { readonly token: string | undefined; readonly owner: Owner | undefined; readonly challenge: string } {
  const token = /^Bearer +([^\s,]+)$/i.exec(header ?? "")?.[1];
  const owner = token === undefined ? undefined : authorize(token);
  const challenge = `Bearer realm="quartermaster"${token === undefined ? "" : ', error="invalid_token"'}`;
  return { token, owner, challenge };
}

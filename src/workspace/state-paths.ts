import { dirname, join } from "node:path";

/** What only its owner may read: the stored secrets. */
export function getSecretsPath(storePath: string): string {
  return join(dirname(storePath), "secrets.json");
}

/** Where the token of the profile `default` is kept, when the configuration gives it none. */
export function getTokenPath(storePath: string): string {
  return join(dirname(storePath), "token");
}

/** What links to approvals are signed with. */
export function getLinkKeyPath(storePath: string): string {
  return join(dirname(storePath), "link-key");
}

/** Where `qm serve` listens, for as long as it does. */
export function getAddressPath(storePath: string): string {
  return join(dirname(storePath), "address");
}

/** What servers write to their error output, a file each. */
export function getLogFolder(storePath: string): string {
  return join(dirname(storePath), "logs");
}

/** Servers that came as a bundle, unpacked. */
export function getBundleFolder(storePath: string): string {
  return join(dirname(storePath), "bundles");
}

/** Everything that is kept beside a store. */
export function listStatePaths(storePath: string): readonly string[] {
  const secrets = getSecretsPath(storePath);
  const places = [getTokenPath, getLinkKeyPath, getAddressPath, getLogFolder, getBundleFolder].map((place) =>
    place(storePath),
  );
  return [secrets, `${secrets}.lock`, ...places];
}

import { dirname, join, resolve } from "node:path";
import type { LoadedConfig } from "../config/parse.ts";
import { type Environment, resolveReference } from "../config/references.ts";

export const resolveStorePath = ({ config, folder }: LoadedConfig, env: Environment): string =>
  resolve(folder, resolveReference(config.store.path, env, "store.path"));

const besideStore = (name: string) => (storePath: string) => join(dirname(storePath), name);

/** The stored secrets. Only their owner may read the file. */
export const getSecretsPath = besideStore("secrets.json");
/** The token of the profile `default`, unless the configuration names one. */
export const getTokenPath = besideStore("token");
/** The key that signs links to approvals. */
export const getLinkKeyPath = besideStore("link-key");
/** The address of `qm serve` while it runs. */
export const getAddressPath = besideStore("address");
/** The error output of servers, a file each. */
export const getLogFolder = besideStore("logs");
/** Unpacked bundles of servers. */
export const getBundleFolder = besideStore("bundles");
/** Compiled OpenAPI documents, a file each. */
export const getApiFolder = besideStore("apis");
/** Marks of the self-tests of the sandbox that passed, if the folder of the package is read-only. */
export const getSandboxTestsFolder = besideStore("sandbox-tests");

/** All state next to a store. */
export function listStatePaths(storePath: string): readonly string[] {
  const paths = [
    getSecretsPath,
    getTokenPath,
    getLinkKeyPath,
    getAddressPath,
    getLogFolder,
    getBundleFolder,
    getApiFolder,
    getSandboxTestsFolder,
  ];
  return [...paths.map((getPath) => getPath(storePath)), `${getSecretsPath(storePath)}.lock`];
}

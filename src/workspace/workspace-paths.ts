import { realpathSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { findCoreSkills } from "../app/core-skills.ts";
import { CONFIG_FILE } from "../config/config-file.ts";
import type { LoadedConfig } from "../config/parse.ts";
import { type Environment, resolveReference } from "../config/references.ts";
import { STATE_FOLDER } from "../files/safe-files.ts";
import type { SkillRoot } from "../providers/skill/skill-folders.ts";
import { resolveIndexPath } from "./config-mapping.ts";
import { listStatePaths, resolveStorePath } from "./state-paths.ts";

export interface ProtectedPlace {
  /** The folder from which a configuration is searched. Undefined: one was named. */
  readonly cwd: string | undefined;
  readonly env: Environment;
  readonly storePath: string;
}

/**
 * Files that actions must not write, or callers could escape policy and ledger. `configs`: the configuration in use, and the
 * next one while it is applied.
 */
export function listProtectedPaths(
  configs: readonly LoadedConfig[],
  { cwd, env, storePath }: ProtectedPlace,
): readonly string[] {
  const stores = [storePath, ...configs.map((each) => resolveStorePath(each, env))];
  const indexes = configs.flatMap((each) => resolveIndexPath(each, env) ?? []);
  const paths = [
    ...(cwd === undefined ? [] : listConfigPaths(resolve(cwd))),
    ...configs.flatMap(({ path }) => (path === undefined ? [] : [path, `${path}.lock`])),
    ...[...stores, ...indexes].flatMap(listStoreFiles),
    ...stores.flatMap(listStatePaths),
    // A caller that writes a skill would instruct all other callers.
    ...configs.flatMap((each) => listSkillRoots(each, env).map((root) => root.folder)),
    ...configs.flatMap((each) => resolveArchivePath(each, env) ?? []),
  ];
  return [...new Set(paths)];
}

export function resolveArchivePath({ config, folder }: LoadedConfig, env: Environment): string | undefined {
  const { archive } = config.ledger;
  return archive && resolve(folder, resolveReference(archive, env, "ledger.archive"));
}

/** In the order in which they win. A project folder that is also configured is trusted. */
export function listSkillRoots({ config, folder }: LoadedConfig, env: Environment): readonly SkillRoot[] {
  const { folders, projectFolders } = config.skills;
  const locate = (paths: readonly string[], key: string) =>
    paths.map((path, at) => resolve(folder, resolveReference(path, env, `${key}[${at}]`)));
  const configured = locate(folders, "skills.folders").map((path) => {
    return { folder: path, source: "configured", trusted: true };
  });
  const ofWorlds = Object.entries(config.worlds).flatMap(([world, { skills }]) =>
    locate(skills, `worlds.${world}.skills`).map((path) => ({ folder: path, source: world, trusted: true, world })),
  );
  const chosen = new Set([...configured, ...ofWorlds].map((root) => resolveRealPath(root.folder)));
  const project = locate(projectFolders, "skills.project_folders")
    .filter((path) => !chosen.has(resolveRealPath(path)))
    .map((path) => ({ folder: path, source: "project", trusted: false }));
  return [...configured, ...ofWorlds, findCoreSkills(), ...project];
}

/** All places where a configuration is searched: one created nearer than the present one would replace it. */
function listConfigPaths(folder: string): readonly string[] {
  const above = dirname(folder);
  return [join(folder, CONFIG_FILE), ...(above === folder ? [] : listConfigPaths(above))];
}

/** The files of a store with those SQLite puts next to it, links followed, and its state folder if it has one. */
function listStoreFiles(path: string): readonly string[] {
  const ends = ["", "-wal", "-shm", "-journal"];
  const files = [path, resolveRealPath(path)].flatMap((file) => ends.map((end) => file + end));
  return basename(dirname(path)) === STATE_FOLDER ? [dirname(path), ...files] : files;
}

function resolveRealPath(path: string): string {
  try {
    return realpathSync.native(path);
  } catch {
    return path;
  }
}

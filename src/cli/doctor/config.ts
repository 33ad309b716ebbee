import { type LoadOptions, loadConfig } from "../../config/load.ts";
import { messageOf } from "../../core/errors.ts";
import { CALL_VARIABLES, compileCondition } from "../../core/expression.ts";
import { fileRootOf, storePathOf, type WorkspaceOptions } from "../../workspace.ts";
import { type Check, fail, ok } from "./check.ts";

/** Where things are, according to a configuration that can be used. */
export interface Places {
  readonly storePath: string;
  readonly fileRoot: string;
}

/** Without places, nothing else can be checked. */
export async function checkConfig({
  cwd,
  env,
  configPath,
}: WorkspaceOptions): Promise<{ check: Check; places?: Places }> {
  const options: LoadOptions = { cwd, env, compileExpression: (text) => compileCondition(text, CALL_VARIABLES) };
  try {
    const loaded = await loadConfig(configPath, options);
    return {
      check: ok("config", loaded.path ?? "none, the defaults are in force; `qm init` writes a quartermaster.yaml"),
      places: { storePath: storePathOf(loaded, env), fileRoot: fileRootOf(loaded, env) },
    };
  } catch (thrown) {
    return {
      check: fail(
        "config",
        messageOf(thrown),
        "Correct the file; node_modules/quartermaster/docs/config.md has every key.",
      ),
    };
  }
}

import { constants } from "node:fs";
import { chmod, copyFile, stat } from "node:fs/promises";

/** Copies a file beside itself, under its name and the time, with its permissions. Never over another copy. */
export async function backUp(path: string, now: Date): Promise<string> {
  for (let second = 0; ; second++) {
    const at = new Date(now.getTime() + second * 1000);
    const backup = `${path}.bak-${at.toISOString().replaceAll(/[-:]|\.\d+/g, "")}`;
    try {
      await copyFile(path, backup, constants.COPYFILE_EXCL);
      // A copy takes over setuid and setgid too, which a backup must not have.
      await chmod(backup, (await stat(backup)).mode & 0o777);
      return backup;
    } catch (thrown) {
      // Two changes within one second are two copies.
      if ((thrown as NodeJS.ErrnoException).code !== "EEXIST" || second === 60) throw thrown;
    }
  }
}

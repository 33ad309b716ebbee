import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { openWorkspace } from "./workspace.ts";

const stores = vi.hoisted(() => ({ opened: 0, closed: 0 }));

// Counts open stores, because the system keeps a closed file for a while.
vi.mock("../store/open-store.ts", async (original) => {
  const real = await original<typeof import("../store/open-store.ts")>();
  return {
    ...real,
    async openSqliteStore(...given: Parameters<typeof real.openSqliteStore>) {
      const store = await real.openSqliteStore(...given);
      stores.opened++;
      return {
        ...store,
        close() {
          stores.closed++;
          return store.close();
        },
      };
    },
  };
});

test("closes the store when opening fails", async () => {
  const folder = await mkdtemp(join(tmpdir(), "qm-closing-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const embedder = `{ class: light, base_url: "http://127.0.0.1:9", model: x, api_key: "\${secret:NOBODY}" }`;
  await writeFile(join(folder, "quartermaster.yaml"), `search: { embedder: ${embedder} }`);

  await expect(openWorkspace({ cwd: folder, env: {} })).rejects.toMatchObject({ code: "invalid_config" });

  expect(stores).toEqual({ opened: 1, closed: 1 });
});

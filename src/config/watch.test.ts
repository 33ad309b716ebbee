import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { QmError } from "../core/errors.ts";
import { loadConfig, type WatchConfigOptions, watchConfig } from "./config-file.ts";
import type { LoadedConfig } from "./parse.ts";

const WAIT = { timeout: 30_000, interval: 10 };

let folder: string;
let file: string;
let unwatch: (() => void) | undefined;
/** In order: the `queue` of each applied configuration, and the message of each rejection. */
let heard: (number | string)[];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "qm-watch-"));
  file = join(folder, "quartermaster.yaml");
  heard = [];
  await write(1);
});

afterEach(async () => {
  unwatch?.();
  await rm(folder, { recursive: true, force: true });
});

const textOf = (queue: number) => `limits: { queue: ${queue} }\n`;
const write = (queue: number) => writeFile(file, textOf(queue));
const heardLast = (what: unknown) => vi.waitFor(() => expect(heard.at(-1)).toEqual(what), WAIT);

/** Counts also handles that do not keep the process alive, which `getActiveResourcesInfo` leaves out. */
function openWatches(): string[] {
  const { libuv } = process.report.getReport() as { libuv: { type: string; is_active: boolean }[] };
  return libuv.flatMap(({ type, is_active }) => (is_active && /^fs_/.test(type) ? [type] : [])).sort();
}

async function watchNow(options: Partial<WatchConfigOptions> = {}): Promise<void> {
  const { fingerprint } = await loadConfig(file, { cwd: folder });
  unwatch = watchConfig(file, {
    since: fingerprint,
    debounceMs: 20,
    pollMs: 50,
    onChange: ({ config }: LoadedConfig) => void heard.push(config.limits.queue),
    onRejected: (error: QmError) => void heard.push(error.message),
    ...options,
  });
}

test("applies a change in place", async () => {
  await watchNow();

  await write(2);
  await heardLast(2);
  await write(3);
  await heardLast(3);
});

test("applies a file that is renamed over it", async () => {
  await watchNow();

  for (const queue of [2, 3, 4]) {
    await writeFile(`${file}.new`, textOf(queue));
    await rename(`${file}.new`, file);
    await heardLast(queue);
  }
});

test("applies changes on events of the folder, without polling", async () => {
  await watchNow({ pollMs: 1_000_000 });

  await write(2);
  await heardLast(2);
  await writeFile(`${file}.new`, textOf(3));
  await rename(`${file}.new`, file);
  await heardLast(3);
});

test("applies a change made before watching began", async () => {
  const { fingerprint: since } = await loadConfig(file, { cwd: folder });
  await write(2);

  await watchNow({ since });

  await heardLast(2);
});

test("rejects a bad file once and applies the next good one", async () => {
  await watchNow();

  await writeFile(file, "limts: {}\n");
  await heardLast(`${file}:1:1 limts: unknown key; did you mean limits?`);
  await writeFile(join(folder, "other"), "x");
  await write(2);
  await heardLast(2);

  expect(heard.filter((each) => String(each).includes("limts"))).toHaveLength(1);
});

test("waits for a half-written file", async () => {
  await watchNow();

  await writeFile(file, "limits: { que");
  await heardLast(expect.stringContaining("quartermaster.yaml:1:"));
  await write(2);
  await heardLast(2);
});

test("does not apply the beginning of a file", async () => {
  const states = ["policy: {}\nlimits: { queue: 2 }", "policy: {}\nlimits: { queue: 22 }"];
  const readFile = async () => Buffer.from((states.length > 1 ? states.shift() : states[0]) ?? "");

  await watchNow({ readFile });

  await heardLast(22);
  expect(heard).toEqual([22]);
});

test("rejects an empty file", async () => {
  await watchNow();

  await writeFile(file, " \n");
  await heardLast(`${file} is empty; write {} for the defaults`);
  await writeFile(file, "{}");
  await heardLast(256);
});

test("survives deletion and re-creation", async () => {
  await watchNow();

  await rm(file);
  await heardLast(expect.stringContaining("there is no such file"));
  await write(2);
  await heardLast(2);
});

test("survives deletion and re-creation of the folder", async () => {
  await watchNow();

  await rm(folder, { recursive: true });
  await heardLast(expect.stringContaining("there is no such file"));
  await mkdir(folder);
  await write(2);
  await heardLast(2);
  await write(3);
  await heardLast(3);
  await vi.waitFor(() => expect(openWatches()).toEqual(["fs_event", "fs_poll"]), WAIT);
});

test("follows a link to a file elsewhere", async () => {
  const elsewhere = join(folder, "elsewhere");
  await mkdir(elsewhere);
  await rename(file, join(elsewhere, "real.yaml"));
  await symlink(join(elsewhere, "real.yaml"), file);
  await watchNow();

  await writeFile(join(elsewhere, "real.yaml"), textOf(2));

  await heardLast(2);
});

test("reports a configuration that could not be applied", async () => {
  await watchNow({
    onChange: async ({ config }) => {
      if (config.limits.queue === 2) throw new Error("no such actor");
      heard.push(config.limits.queue);
    },
  });

  await write(2);
  await heardLast("no such actor");
  await write(3);
  await heardLast(3);
});

test("continues when onRejected throws", async () => {
  const onRejected = vi.fn(() => {
    throw new Error("cannot listen");
  });
  await watchNow({ onRejected });

  await writeFile(file, "nope: 1\n");
  await vi.waitFor(() => expect(onRejected).toHaveBeenCalledOnce(), WAIT);
  await write(2);
  await heardLast(2);
});

test("neither reads nor reports after it is stopped, and leaves nothing open", async () => {
  let release = () => {};
  const reading = new Promise<void>((done) => {
    release = done;
  });
  const readFile = vi.fn(async () => {
    await reading;
    return Buffer.from(textOf(2));
  });
  await watchNow({ readFile });
  await vi.waitFor(() => expect(readFile).toHaveBeenCalledOnce(), WAIT);
  expect(openWatches()).toEqual(["fs_event", "fs_poll"]);

  unwatch?.();
  unwatch?.();
  release();
  await write(3);
  await vi.waitFor(() => expect(openWatches()).toEqual([]), WAIT);

  expect(readFile).toHaveBeenCalledOnce();
  expect(heard).toEqual([]);
});

import { expect, test } from "vitest";
import { buildServerEnvironment } from "./start-process.ts";

const OURS = {
  PATH: "/bin",
  HOME: "/home/me@work",
  LANG: "C.UTF-8",
  https_proxy: "http://proxy:3128",
  HTTP_PROXY: "http://me:secret@proxy:3128",
  SHELL: "() { evil; }",
  GITHUB_TOKEN: "t",
  OPENAI_API_KEY: "k",
  CLIENT_SECRET: "s",
  OTEL_EXPORTER_OTLP_HEADERS: "h",
  NODE_OPTIONS: "--inspect",
  USER: undefined,
};

test("passes on only needed and configured variables", () => {
  expect(buildServerEnvironment(OURS, { GITHUB_TOKEN: "configured", LANG: "de" }, "linux")).toEqual({
    PATH: "/bin",
    HOME: "/home/me@work",
    LANG: "de",
    https_proxy: "http://proxy:3128",
    GITHUB_TOKEN: "configured",
  });
});

test("passes on the variables that Windows needs, in any case", () => {
  expect(buildServerEnvironment({ Path: "C:\\bin", SystemRoot: "C:\\Windows", HOME: "x" }, {}, "win32")).toEqual({
    Path: "C:\\bin",
    SystemRoot: "C:\\Windows",
  });
});

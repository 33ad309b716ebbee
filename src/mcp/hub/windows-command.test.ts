import { expect, test } from "vitest";
import { toWindowsCommand } from "./start-process.ts";

const VARIABLES = { Path: "C:\\one;C:\\Program Files\\nodejs", PATHEXT: ".EXE;.CMD", ComSpec: "C:\\cmd.exe" };
const FILES = new Set(["C:\\Program Files\\nodejs\\npx.CMD", "C:\\one\\uvx.EXE", "C:\\tools\\serve.bat"]);
const found = (command: string, ...args: string[]) =>
  toWindowsCommand(command, args, VARIABLES, (path) => FILES.has(path));

test("starts a program directly", () => {
  expect(found("uvx", "a b")).toEqual({ file: "C:\\one\\uvx.EXE", args: ["a b"], verbatim: false });
  expect(found("nowhere", "x")).toEqual({ file: "nowhere", args: ["x"], verbatim: false });
});

test("starts a command file through cmd.exe with escaped arguments", () => {
  const { file, args, verbatim } = found("npx", "-y", 'say "hi" & del %PATH%');

  expect([file, verbatim, args.slice(0, 3)]).toEqual(["C:\\cmd.exe", true, ["/d", "/s", "/c"]]);
  const line = args[3]?.slice(1, -1) ?? "";
  expect(line.replace(/\^./gs, "")).not.toMatch(/[&%"<>|^]/);
  // What cmd.exe reads, and what is left of the arguments when the file passes them on.
  const read = (text: string) => text.replace(/\^(.)/gs, "$1");
  const command = "C:\\Program Files\\nodejs\\npx.CMD ";
  expect(read(line).startsWith(command)).toBe(true);
  expect(read(read(line).slice(command.length))).toBe('"-y" "say \\"hi\\" & del %PATH%"');
});

test("finds a command file by its path", () => {
  expect(found("C:\\tools\\serve.bat").args[3]).toContain("serve.bat");
});

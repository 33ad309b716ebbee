import { expect, test } from "vitest";
import { createValueRedactor } from "./redact-values.ts";
import { createStderrTail } from "./server-log.ts";

const bytes = (text: string): Buffer => Buffer.from(text);

test("keeps whole last lines and the unfinished one", () => {
  const tail = createStderrTail({ limit: 20 });
  tail.push(bytes("first line\nsecond line\nthird line\nand"));

  expect(tail.text()).toBe("third line\nand");
});

test("never keeps more than the limit", () => {
  const seen: number[] = [];
  const tail = createStderrTail({ onLine: (line) => seen.push(line.length) });
  for (let n = 0; n < 1_000; n++) tail.push(bytes(`${n} ${"x".repeat(99)}\n`));
  expect(tail.text().length).toBeGreaterThan(3_900);
  expect(tail.text().length).toBeLessThanOrEqual(4096);
  expect(tail.text()).toMatch(/999 x+$/);
  tail.push(bytes("x".repeat(100_000)));
  tail.push(bytes("\n"));
  expect(tail.text()).toMatch(/\n\(a line of 100000 bytes\)$/);
  tail.push(bytes(`${"ä".repeat(20_000)}\n`));

  expect(tail.text()).toHaveLength(4096);
  expect(Math.max(...seen)).toBe(4096);
});

test("removes terminal control characters", () => {
  const tail = createStderrTail();
  tail.push(bytes("\u001b[31mred\u001b[0m\r\nbell\u0007 \u202Eback"));

  expect(tail.text()).toBe("red\nbell\\u{7} \\u{202e}back");
});

test("redacts the values of variables, also in the log", () => {
  const logged: string[] = [];
  const hide = createValueRedactor({
    API_KEY: "sk-12345678",
    LONGER: "sk-12345678-and-more",
    LEVEL: "debug",
    PEM: "--begin--\nabcdefgh\n",
  });
  const tail = createStderrTail({ hide, onLine: (line) => logged.push(line) });
  tail.push(bytes("key=sk-12345"));
  tail.push(bytes("678 other=sk-12345678-and-more level=debug\n--begin--\nabcdefgh\nonce sk-12345678"));

  expect(logged).toEqual(["key=[API_KEY] other=[LONGER] level=debug", "[PEM]", "[PEM]"]);
  expect(tail.text().split("\n").at(-1)).toBe("once [API_KEY]");
});

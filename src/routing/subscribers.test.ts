import { describe, expect, test, vi } from "vitest";
import { createSubscribers, type EventDelivery, type EventHeading } from "./subscribers.ts";
import { waitForTurn } from "./testing.ts";

const heading: EventHeading = { source: "actor:triage", type: "tool_call:x", actor: "triage", isPrivate: false };

function delivery(id: string, size = 10): EventDelivery {
  return { event: { id, source: heading.source, type: heading.type, data: null, at: "" }, size, depth: 1 };
}

function opened() {
  const problems: string[] = [];
  const subscribers = createSubscribers({
    report: (problem) => problems.push(problem),
    runAtDepth: (_depth, work) => work(),
  });
  const tell = (id: string, size?: number) => {
    for (const subscriber of subscribers.matching(heading)) subscriber.deliver(delivery(id, size));
  };
  return { subscribers, problems, tell };
}

describe("matching", () => {
  test.each([
    [{}, true, false],
    [{ source: "actor:*" }, true, false],
    [{ source: "actor" }, false, false],
    [{ event: "tool_call:*" }, true, false],
    [{ event: "tool_result:*" }, false, false],
    [{ actor: "triage" }, true, true],
    [{ actor: "triage", event: "tool_call:?" }, true, true],
    [{ actor: "triage", event: "tool_call:y" }, false, false],
    [{ actor: "other" }, false, false],
    [{ actor: "*" }, false, false],
    [{ source: "actor:triage", event: "*" }, true, false],
  ])("%j: public %s, private %s", (interest, open, own) => {
    const { subscribers } = opened();
    subscribers.add(interest, () => {});

    expect(subscribers.matching(heading)).toHaveLength(open ? 1 : 0);
    expect(subscribers.matching({ ...heading, isPrivate: true })).toHaveLength(own ? 1 : 0);
  });

  test("matches no actor filter when the event has no actor", () => {
    const { subscribers } = opened();
    subscribers.add({ actor: "triage" }, () => {});
    subscribers.add({}, () => {});

    expect(subscribers.matching({ ...heading, actor: undefined })).toHaveLength(1);
  });
});

describe("delivery", () => {
  test("is asynchronous and in order", async () => {
    const { subscribers, tell } = opened();
    const heard: string[] = [];
    subscribers.add({}, ({ id }) => heard.push(id));

    for (const id of ["a", "b", "c"]) tell(id);
    expect(heard).toEqual([]);
    await waitForTurn();

    expect(heard).toEqual(["a", "b", "c"]);
  });

  test("goes on after a listener that throws", async () => {
    const { subscribers, tell, problems } = opened();
    const heard: string[] = [];
    const thrown = [new Error("no"), undefined, Object.create(null)];
    const thenable = new Proxy({}, { has: () => true, get: () => expect.fail("no promise") });
    subscribers.add({ event: "tool_*" }, ({ id }) => {
      heard.push(id);
      throw thrown.shift();
    });
    subscribers.add({}, async ({ id }) => Promise.reject(new Error(`later ${id}`)));
    subscribers.add({}, () => thenable);

    for (const id of ["a", "b", "c"]) tell(id);
    await waitForTurn();

    expect(heard).toEqual(["a", "b", "c"]);
    expect(problems).toHaveLength(9);
    expect(problems).toContain("the subscriber to tool_* from * failed at tool_call:x: no");
    expect(problems).toContain("the subscriber to * from * failed at tool_call:x: later c");
  });

  test("to a hanging listener stops at its limit, and does not delay others", async () => {
    const { subscribers, tell, problems } = opened();
    const hanging = vi.fn(() => new Promise(() => {}));
    const heard = vi.fn();
    subscribers.add({}, hanging);
    subscribers.add({}, heard);

    tell("first");
    await waitForTurn();
    for (let count = 0; count < 300; count++) tell(`${count}`);
    await waitForTurn();

    expect(hanging).toHaveBeenCalledTimes(1);
    expect(heard).toHaveBeenCalledTimes(301);
    expect(problems).toEqual([expect.stringContaining("is too slow")]);
    subscribers.close();
    expect(problems.at(-1)).toBe("the subscriber to * from * was not told of the last 256 events");
  });

  test("keeps up with any number of events for a sync listener", async () => {
    const { subscribers, problems } = opened();
    const heard = vi.fn();
    subscribers.add({}, heard);
    const [subscriber] = subscribers.matching(heading);

    for (let count = 0; count < 1000; count++) subscriber?.deliver(delivery(`${count}`));
    await waitForTurn();

    expect(heard).toHaveBeenCalledTimes(1000);
    expect(problems).toEqual([]);
  });

  test("drops queued events once the listener becomes async", async () => {
    const { subscribers, tell, problems } = opened();
    subscribers.add({}, () => new Promise(() => {}));

    for (let count = 0; count < 1000; count++) tell(`${count}`);
    await waitForTurn();
    subscribers.close();

    expect(problems.at(-1)).toBe("the subscriber to * from * was not told of the last 256 events");
  });

  test("is bounded by size too, and reports the missed events", async () => {
    const { subscribers, tell, problems } = opened();
    const releases: (() => void)[] = [];
    const heard: string[] = [];
    subscribers.add({}, ({ id }) => {
      heard.push(id);
      return new Promise<void>((resolve) => releases.push(resolve));
    });
    const mib = 1024 * 1024;

    tell("a", 4 * mib);
    await waitForTurn();
    for (const id of ["b", "c", "d", "e", "f", "g"]) tell(id, 4 * mib);
    while (releases.length > 0) {
      releases.shift()?.();
      await waitForTurn();
    }
    tell("h", 4 * mib);
    await waitForTurn();

    expect(heard).toEqual(["a", "b", "c", "d", "e", "h"]);
    expect(problems).toEqual([
      expect.stringContaining("is too slow"),
      expect.stringContaining("has caught up; it was not told of 2 events"),
    ]);
  });
});

describe("subscribing and unsubscribing", () => {
  test("during delivery affects later and waiting events", async () => {
    const { subscribers, tell } = opened();
    const heard: string[] = [];
    const late = ({ id }: { id: string }) => heard.push(`late ${id}`);
    subscribers.add({}, ({ id }) => {
      heard.push(`first ${id}`);
      if (id === "a") subscribers.add({}, late);
      if (id === "b") endSecond();
    });
    const endSecond = subscribers.add({}, ({ id }) => heard.push(`second ${id}`));

    tell("a");
    await waitForTurn();
    tell("b");
    await waitForTurn();

    expect(heard).toEqual(["first a", "second a", "first b", "late b"]);
  });

  test("by the listener itself ends its delivery", async () => {
    const { subscribers, tell } = opened();
    const heard: string[] = [];
    const end = subscribers.add({}, ({ id }) => {
      heard.push(id);
      end();
    });

    tell("a");
    tell("b");
    await waitForTurn();
    tell("c");
    await waitForTurn();

    expect(heard).toEqual(["a"]);
    expect(subscribers.size).toBe(0);
  });

  test("twice with one function gives two subscriptions", async () => {
    const { subscribers, tell } = opened();
    const listener = vi.fn();
    const end = subscribers.add({}, listener);
    subscribers.add({}, listener);

    end();
    end();
    tell("a");
    await waitForTurn();

    expect(listener).toHaveBeenCalledTimes(1);
  });
});

import { expect, test } from "vitest";
import { createResourceSubscriptions } from "./change-notifications.ts";

test("limits the subscriptions of each subscriber on its own", () => {
  const subscriptions = createResourceSubscriptions(2);
  const follower = () => ({ audience: {}, notify: () => {} });
  const [one, other] = [follower(), follower()];

  const taken = ["a", "b", "b", "c"].map((uri) => subscriptions.add(one, "s", uri));
  subscriptions.remove(one, "s", "a");

  expect(taken).toEqual([true, true, true, false]);
  expect(subscriptions.add(one, "s", "c")).toBe(true);
  expect(subscriptions.add(other, "s", "a")).toBe(true);
});

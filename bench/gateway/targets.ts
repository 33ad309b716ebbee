import { short, type Table } from "../table.ts";
import { type Target, targetTable } from "../targets.ts";
import type { Cost } from "./calls.ts";
import type { Start } from "./cold.ts";
import type { After } from "./long.ts";

const MB = 2 ** 20;

/** The targets of the parts that were run. */
export function targets({
  costs,
  starts,
  afters,
}: {
  readonly costs: readonly Cost[];
  readonly starts: readonly Start[];
  readonly afters: readonly After[];
}): Table {
  const ours = ({ gateway }: { readonly gateway: string }): boolean => gateway.startsWith("qm ");
  const served = costs.filter((cost) => cost.gateway.startsWith("qm serve") && !cost.isRaw && cost.width === 1);
  const cached = starts.filter(
    (start) => ours(start) && start.broken === 0 && !start.gateway.includes("nothing known"),
  );
  const long = afters.filter(ours);
  const floor = ({ width }: Cost): number => costs.find((one) => one.isRaw && one.width === width)?.processorMs ?? 0;
  const peer = ({ width, server }: Cost): Cost | undefined =>
    costs.find((one) => one.gateway.startsWith("mcp-hub") && one.width === width && one.server === server);
  return targetTable([
    ...costs
      .filter((cost) => ours(cost) && cost.isRaw && cost.width > 1)
      .map((cost) => target(`processor : floor, ${named(cost)}`, cost.processorMs / floor(cost), "≤", 5, "×")),
    ...costs
      .filter((cost) => ours(cost) && !cost.isRaw)
      .map((cost) => {
        const rival = peer(cost);
        const speed = rival && cost.callsPerSecond / rival.callsPerSecond;
        return target(`calls/s : mcp-hub, ${named(cost)}`, speed, "≥", 1.2, "×");
      }),
    ...served.map(({ gateway, server, addedP50 }) =>
      target(`p50 added: ${gateway}, ${server === "pipe" ? "stdio" : "HTTP"} server`, addedP50, "<", 2, "ms"),
    ),
    ...cached.flatMap(({ gateway, servers, beyondNodeMs, childrenAfterList, listRss, ownRss }) => [
      target(`first tools/list beyond node -e 1: ${gateway}, ${servers} servers`, beyondNodeMs, "≤", 150, "ms"),
      target(`children after the list: ${gateway}, ${servers} servers`, childrenAfterList, "≤", 0, ""),
      target(`memory of all after the list: ${gateway}, ${servers} servers`, listRss / MB, "<", 120, "MB"),
      target(`its own memory after a call: ${gateway}, ${servers} servers`, ownRss / MB, "<", 120, "MB"),
    ]),
    ...long.flatMap(({ gateway, after, before, calls, orphans }) => [
      target(`its own memory after ${short(calls)} calls: ${gateway}`, after.ownRss / MB, "<", 120, "MB"),
      target(`left after SIGKILL: ${gateway}`, orphans, "≤", 0, ""),
      target(`descriptors more after many calls: ${gateway}`, after.descriptors - before.descriptors, "≤", 0, ""),
    ]),
  ]);
}

const named = ({ gateway, server, width }: Cost): string =>
  `${gateway} → ${server === "pipe" ? "stdio" : "HTTP"} server, ${width} in flight`;

const target = (
  name: string,
  measured: number | undefined,
  sign: Target["sign"],
  limit: number,
  unit: string,
): Target => ({ name, measured, sign, limit, unit });

import { short, type Table } from "../table.ts";
import type { Cost } from "./calls.ts";
import type { Start } from "./cold.ts";
import type { After } from "./long.ts";

const MB = 2 ** 20;

/** The targets, and whether they are reached. Targets without a measurement are left out. */
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
  const cached = starts.filter((start) => ours(start) && !start.gateway.includes("nothing known"));
  const long = afters.filter(ours);
  const floor = ({ width }: Cost): number => costs.find((one) => one.isRaw && one.width === width)?.processorMs ?? 0;
  const peer = ({ width, server }: Cost): Cost | undefined =>
    costs.find((one) => one.gateway.startsWith("mcp-hub") && one.width === width && one.server === server);
  const rows = [
    ...costs
      .filter((cost) => ours(cost) && cost.isRaw && cost.width > 1)
      .map((cost) => row(`processor : floor, ${named(cost)}`, cost.processorMs / floor(cost), "≤", 5, "×")),
    ...costs
      .filter((cost) => ours(cost) && !cost.isRaw)
      .flatMap((cost) => {
        const rival = peer(cost);
        if (rival === undefined) return [];
        return [row(`calls/s : mcp-hub, ${named(cost)}`, cost.callsPerSecond / rival.callsPerSecond, "≥", 1.2, "×")];
      }),
    ...served.map(({ gateway, server, addedP50 }) =>
      row(`p50 added: ${gateway}, ${server === "pipe" ? "stdio" : "HTTP"} server`, addedP50, "<", 2, "ms"),
    ),
    ...cached.flatMap(({ gateway, servers, beyondNodeMs, childrenAfterList, listRss, ownRss }) => [
      row(`cold list beyond node: ${gateway}, ${servers}`, beyondNodeMs, "<", 150, "ms"),
      row(`children after the list: ${gateway}, ${servers}`, childrenAfterList, "≤", 0, ""),
      row(`memory of all after the list: ${gateway}, ${servers}`, listRss / MB, "<", 120, "MB"),
      row(`its own memory after a call: ${gateway}, ${servers}`, ownRss / MB, "<", 120, "MB"),
    ]),
    ...long.flatMap(({ gateway, after, before, calls, orphans }) => [
      row(`its own memory after ${short(calls)} calls: ${gateway}`, after.ownRss / MB, "<", 120, "MB"),
      row(`left after SIGKILL: ${gateway}`, orphans, "≤", 0, ""),
      row(`descriptors more after many calls: ${gateway}`, after.descriptors - before.descriptors, "≤", 0, ""),
    ]),
  ];
  return { title: "Targets", head: ["", "measured", "target", ""], rows };
}

const named = ({ gateway, server, width }: Cost): string =>
  `${gateway} → ${server === "pipe" ? "stdio" : "HTTP"} server, ${width} in flight`;

function row(name: string, measured: number, sign: "<" | "≤" | "≥", target: number, unit: string): readonly string[] {
  const met = sign === "<" ? measured < target : sign === "≤" ? measured <= target : measured >= target;
  const text = (value: number): string => `${short(value)} ${unit}`.trim();
  return [name, text(measured), `${sign} ${text(target)}`, met ? "met" : "NOT MET"];
}

import { request } from "node:http";
import { onTestFinished } from "vitest";
import type { Approvals } from "../approval/approval.ts";
import { type ApprovalQuery, type ApprovalView, isFinished } from "../approval/approval.ts";
import { QmError } from "../core/errors.ts";
import type { ActionName } from "../core/names.ts";
import type { Outcome } from "../core/outcome.ts";
import { createTokenAuthorizer } from "../core/token-authorizer.ts";
import { GATEWAY_LIMITS } from "../mcp/gateway/gateway.ts";
import { startHttpListener } from "../mcp/gateway/http-listener.ts";
import { createApprovalsApi } from "./approvals-api.ts";

/** The approval service without a store. The first answer counts, as in the real one. */
export interface FakeApprovals extends Approvals {
  /** Adds a pending approval. */
  ask(given?: Partial<ApprovalView>): ApprovalView;
  /** The ids of the calls that have run. */
  readonly runs: readonly string[];
  readonly listeners: number;
}

const ACTION = "mail__send" as ActionName;

export function fakeApprovals(now: () => Date = () => new Date()): FakeApprovals {
  const stored = new Map<string, ApprovalView>();
  const listeners = new Set<(approval: ApprovalView) => void>();
  const runs: string[] = [];

  function change(approval: ApprovalView): ApprovalView {
    stored.set(approval.id, approval);
    for (const listener of listeners) listener(approval);
    return approval;
  }

  function required(id: string): ApprovalView {
    const found = stored.get(id);
    if (found === undefined) throw new QmError("not_found", `there is no approval ${id}`);
    return found;
  }

  function outcomeOf({ state, callId, id, level, expiresAt }: ApprovalView): Outcome {
    const ended = { callId, value: "", durationMs: 1, action: ACTION };
    if (state === "done") return { ...ended, status: "done", data: { sent: true }, value: '{"sent":true}' };
    if (!isFinished({ state }))
      return {
        ...ended,
        status: "waiting",
        reason: "nobody has answered",
        hint: "",
        approval: { id, level, expiresAt },
      };
    return { ...ended, status: "refused", reason: state, error: { code: "tool_denied", error: state } };
  }

  const fake: FakeApprovals = {
    runs,
    get listeners() {
      return listeners.size;
    },
    ask(given = {}) {
      const id = given.id ?? `0198c0de-0000-7000-8000-${String(stored.size + 1).padStart(12, "0")}`;
      return change({
        id,
        callId: `call-${stored.size + 1}`,
        state: "pending",
        action: ACTION,
        definition: "d",
        args: { to: "bob@example.com" },
        via: "mcp",
        policyVersion: "p",
        binding: "b",
        level: "user",
        rule: "ask-first",
        reason: "A person must approve this call.",
        requestedAt: now().toISOString(),
        expiresAt: new Date(now().getTime() + 3_600_000).toISOString(),
        actor: "default",
        session: "s",
        masked: [],
        warnings: [],
        ...given,
      });
    },
    async list({ state, session, user, action, after, limit = 100 }: ApprovalQuery = {}) {
      const all = [...stored.values()];
      const from = after === undefined ? 0 : all.findIndex(({ id }) => id === after) + 1;
      return all
        .slice(from)
        .filter((each) => state === undefined || [state].flat().includes(each.state))
        .filter((each) => session === undefined || each.session === session)
        .filter((each) => user === undefined || each.user === user)
        .filter((each) => action === undefined || each.action === action)
        .slice(0, limit);
    },
    async get(id) {
      return required(id);
    },
    readFiles: async () => ({ parts: [] }),
    async reveal(id, approver) {
      const found = required(id);
      if (!approver.roles.some((role) => [found.level, "approver", "admin"].includes(role)))
        throw new QmError("denied", `${approver.id} has none of the roles that may agree to it`);
      return { ...found, masked: [], args: { revealed: approver.id } };
    },
    async answer(id, { decision, reason }, approver) {
      const found = required(id);
      if (!approver.roles.some((role) => [found.level, "approver", "admin"].includes(role)))
        throw new QmError("denied", `${approver.id} has none of the roles that may agree to it`);
      if (found.answer !== undefined)
        throw new QmError("conflict", `${found.answer.by} was first: it is ${found.answer.decision}`, {
          details: { by: found.answer.by, via: found.answer.via },
        });
      if (found.expiresAt <= now().toISOString()) throw new QmError("approval_expired", "nobody answered in time");
      const { id: by, via } = approver;
      const answer = { decision, by, via, at: now().toISOString(), ...(reason === undefined ? {} : { reason }) };
      return change({ ...found, state: decision, answer });
    },
    async withdraw(id) {
      return required(id);
    },
    outcome: (id, wait) => fake.look(id, wait),
    look(id, { signal, timeoutMs } = {}) {
      return new Promise((resolve, reject) => {
        const answered = () => {
          const approval = stored.get(id);
          if (approval === undefined) return done(() => reject(new QmError("not_found", `there is no approval ${id}`)));
          if (isFinished(approval) || timeoutMs === 0) done(() => resolve(outcomeOf(approval)));
        };
        const late = () => done(() => resolve(outcomeOf(required(id))));
        const gone = () => done(() => reject(signal?.reason));
        const timer = timeoutMs === undefined ? undefined : setTimeout(late, timeoutMs);
        const done = (end: () => void) => {
          clearTimeout(timer);
          listeners.delete(answered);
          signal?.removeEventListener("abort", gone);
          end();
        };
        listeners.add(answered);
        signal?.addEventListener("abort", gone);
        answered();
      });
    },
    async run(id) {
      const approved = [...stored.values()].filter((each) => each.state === "approved" && (id ?? each.id) === each.id);
      for (const approval of approved) {
        runs.push(approval.id);
        change({ ...approval, state: "done", status: "done" });
      }
      return approved.length;
    },
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
  return fake;
}

export interface Sent {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

export interface Got {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

export const KEY = Buffer.alloc(32, 1);
export const ANN = { authorization: "Bearer ann-token" };

/** The API on a real socket, behind the real listener: ann may approve, vic may only read. */
export async function openTestApi(
  options: { readonly now?: () => Date; readonly roles?: Readonly<Record<string, readonly string[]>> } = {},
) {
  const { now = () => new Date(), roles = { ann: ["approver"], vic: ["viewer"] } } = options;
  const approvals = fakeApprovals(now);
  const problems: string[] = [];
  const onProblem = (problem: string) => problems.push(problem);
  const closing = new AbortController();
  const api = createApprovalsApi({
    approvals,
    authorize: createTokenAuthorizer(
      Object.entries(roles).map(([id, roles]) => [`${id}-token`, { id, roles }] as const),
    ),
    links: { key: KEY, listRoles: (name) => roles[name] ?? [], now },
    onProblem,
    signal: closing.signal,
  });
  const { url, close } = await startHttpListener(
    { limits: GATEWAY_LIMITS, onProblem, fetch: async () => new Response("mcp"), answer: () => false },
    {
      host: "127.0.0.1",
      port: 0,
      allowedHosts: [],
      allowedOrigins: [],
      authorize: () => undefined,
      other: api,
      publicOrigin: "https://qm.example.com",
    },
  );
  onTestFinished(async () => {
    closing.abort();
    await close();
  });
  const { origin } = new URL(url);
  return {
    approvals,
    problems,
    origin,
    closing,
    /** `fetch` does not send every header, and changes paths. */
    send: (path: string, { method = "GET", headers = {}, body }: Sent = {}): Promise<Got> =>
      new Promise((resolve, reject) => {
        const { hostname, port } = new URL(origin);
        const outgoing = request({ hostname, port, path, method, headers }, (incoming) => {
          const chunks: Buffer[] = [];
          incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
          incoming.on("end", () =>
            resolve({
              status: incoming.statusCode ?? 0,
              headers: incoming.headers,
              body: Buffer.concat(chunks).toString(),
            }),
          );
        });
        outgoing.on("error", reject);
        outgoing.end(body);
      }),
  };
}

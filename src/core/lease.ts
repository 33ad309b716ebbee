import type { ProcessInfo, Runtime } from "./runtime.ts";

/** A process that owns something in the store until its lease ends. */
export interface LeaseHolder {
  /** Different for every start of a process. */
  readonly id: string;
  readonly pid: number;
  readonly host: string;
  readonly leaseUntil: Date;
}

type LeaseOptions = { readonly runtime: Runtime; readonly self: ProcessInfo; readonly durationMs: number };

/** Creates leases for this process and checks those of others. */
export class Lease {
  readonly id: string;
  readonly #options: LeaseOptions;

  constructor(options: LeaseOptions) {
    this.#options = options;
    this.id = options.runtime.newId();
  }

  holder(): LeaseHolder {
    const { runtime, self, durationMs } = this.#options;
    const leaseUntil = new Date(runtime.now().getTime() + durationMs);
    return { id: this.id, pid: self.pid, host: self.host, leaseUntil };
  }

  /** Whether a lease ran out or its process is gone. One far in the future was taken with a wrong clock. */
  hasEnded({ pid, host, leaseUntil }: LeaseHolder): boolean {
    const { runtime, self, durationMs } = this.#options;
    const left = leaseUntil.getTime() - runtime.now().getTime();
    return left <= 0 || left > 2 * durationMs || (host === self.host && !self.isAlive(pid));
  }
}

/** Renews a lease while this process holds anything under it. */
export class LeaseRenewal {
  readonly #held = new Set<unknown>();
  readonly #renew: () => Promise<unknown>;
  readonly #everyMs: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(everyMs: number, renew: () => Promise<unknown>) {
    this.#everyMs = everyMs;
    this.#renew = renew;
  }

  has(key: unknown): boolean {
    return this.#held.has(key);
  }

  add(key: unknown): void {
    this.#held.add(key);
    this.#timer ??= setInterval(() => void this.#renew().catch(() => {}), this.#everyMs).unref();
  }

  delete(key: unknown): void {
    this.#held.delete(key);
    if (this.#held.size === 0) this.close();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

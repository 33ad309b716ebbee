/**
 * The system calls that namespaces do not cover: `syslog` reads the log of the kernel; `add_key`, `request_key` and `keyctl`
 * reach the keys of the login session; `io_uring_setup` would get around this filter. `socket` is limited to families that
 * the network namespace covers. Others reach beyond it, as vsock reaches the host of a virtual machine.
 */
const SYSTEM_CALLS: Readonly<Record<string, { audit: number; socket: number; refused: readonly number[] }>> = {
  x64: { audit: 0xc000003e, socket: 41, refused: [103, 248, 249, 250, 425] },
  arm64: { audit: 0xc00000b7, socket: 198, refused: [116, 217, 218, 219, 425] },
};
/** Unix, IPv4, IPv6, netlink. */
const FAMILIES = [1, 2, 10, 16];

const LOAD = 0x20;
const IF_EQUAL = 0x15;
const IF_AT_LEAST = 0x35;
const RETURN = 0x06;
/** Offsets in what the kernel gives to a filter. */
const [NUMBER_AT, ARCHITECTURE_AT, FIRST_ARGUMENT_AT] = [0, 4, 16];
/** Numbers from here on are those of another calling convention, with the same architecture. */
const OTHER_CONVENTION = 0x40000000;
const ALLOW = 0x7fff0000;
const FAIL_WITH_EPERM = 0x00050001;

type Step = "next" | "refuse" | "allow";
type Instruction = readonly [code: number, value: number, whenTrue?: Step, whenFalse?: Step];

/** A seccomp program for the processor. Undefined: there is none. */
export function buildSyscallFilter(arch: string): Uint8Array | undefined {
  const calls = SYSTEM_CALLS[arch];
  if (calls === undefined) return undefined;
  const program: readonly Instruction[] = [
    [LOAD, ARCHITECTURE_AT],
    [IF_EQUAL, calls.audit, "next", "refuse"],
    [LOAD, NUMBER_AT],
    [IF_AT_LEAST, OTHER_CONVENTION, "refuse", "next"],
    ...calls.refused.map((number): Instruction => [IF_EQUAL, number, "refuse", "next"]),
    [IF_EQUAL, calls.socket, "next", "allow"],
    [LOAD, FIRST_ARGUMENT_AT],
    ...FAMILIES.map((family): Instruction => [IF_EQUAL, family, "allow", "next"]),
    [RETURN, FAIL_WITH_EPERM],
    [RETURN, ALLOW],
  ];
  const bytes = Buffer.alloc(program.length * 8);
  for (const [at, [code, value, whenTrue = "next", whenFalse = "next"]] of program.entries()) {
    const skip = { next: 0, refuse: program.length - 3 - at, allow: program.length - 2 - at };
    bytes.writeUInt16LE(code, at * 8);
    bytes.writeUInt8(skip[whenTrue], at * 8 + 2);
    bytes.writeUInt8(skip[whenFalse], at * 8 + 3);
    bytes.writeUInt32LE(value, at * 8 + 4);
  }
  return bytes;
}

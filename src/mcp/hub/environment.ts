const POSIX = ["HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];
const WINDOWS = [
  "APPDATA",
  "COMSPEC",
  "HOMEDRIVE",
  "HOMEPATH",
  "LOCALAPPDATA",
  "PATH",
  "PATHEXT",
  "PROCESSOR_ARCHITECTURE",
  "PROGRAMDATA",
  "PROGRAMFILES",
  "PROGRAMFILES(X86)",
  "PROGRAMW6432",
  "SYSTEMDRIVE",
  "SYSTEMROOT",
  "TEMP",
  "TMP",
  "USERNAME",
  "USERPROFILE",
  "WINDIR",
];
/** How the network is reached: without these nothing is installed behind a company's proxy. */
const NETWORK = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "NODE_EXTRA_CA_CERTS", "SSL_CERT_DIR", "SSL_CERT_FILE"];

export type Variables = Readonly<Record<string, string | undefined>>;

/**
 * The variables a server gets: a short list of ours that every program needs, and those that are configured for it.
 * Nothing else of ours is passed on: it may be a secret, or meant for us, as `OTEL_*` is.
 */
export function serverEnvironment(
  ours: Variables,
  given: Readonly<Record<string, string>>,
  platform: NodeJS.Platform,
): Record<string, string> {
  const wanted = new Set([...(platform === "win32" ? WINDOWS : POSIX), ...NETWORK]);
  const inherited = Object.entries(ours).filter(
    (entry): entry is [string, string] => wanted.has(entry[0].toUpperCase()) && isHarmless(...entry),
  );
  return { ...Object.fromEntries(inherited), ...given };
}

/** Neither a shell's function, which a shell would run, nor a proxy's address with a password in it. */
function isHarmless(name: string, value: string | undefined): boolean {
  if (value === undefined || value.startsWith("()")) return false;
  return !(/_PROXY$/i.test(name) && value.includes("@"));
}

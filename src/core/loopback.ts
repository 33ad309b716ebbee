/** Whether a URL leads to this machine, so that nothing sent to it can be read on the way. */
export function isLoopback({ hostname }: Pick<URL, "hostname">): boolean {
  return hostname === "localhost" || hostname === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}

import { BlockList, isIP, isIPv4, isIPv6, type LookupFunction } from "node:net";
import type { buildConnector } from "undici";
import { QmError } from "../core/errors.ts";
import { clip } from "../core/json.ts";
import { quoteName } from "../core/names.ts";

export interface HostAddress {
  readonly address: string;
  readonly family: 4 | 6;
}

export interface HostGuard {
  /** Throws `invalid_arguments` or `address_refused` for a URL that may never be requested. Does not resolve its host. */
  parseUrl(text: string, base?: URL): URL;
  /** Throws `address_refused` if one of the addresses of the host is not public. */
  check(url: URL): Promise<void>;
  /** A connector for undici that resolves, checks, connects, and checks the address that it has reached. */
  guard(createConnector: (lookup: LookupFunction) => buildConnector.connector): buildConnector.connector;
}

export function createHostGuard(
  allowHosts: readonly string[],
  lookup: (host: string) => Promise<readonly HostAddress[]>,
): HostGuard {
  const allowed = new Set(allowHosts.map(normalizeAllowedHost));
  const isAllowed = (host: string, port: string) => allowed.has(host) || allowed.has(`${host}:${port}`);

  async function resolve(host: string, isHostAllowed: boolean, shown = host): Promise<readonly HostAddress[]> {
    const literal = host.replace(/^\[|\]$/g, "");
    const family = isIP(literal);
    const addresses = family === 0 ? await lookup(host) : [{ address: literal, family: family as 4 | 6 }];
    if (addresses.length === 0) throw new QmError("action_failed", `${quoteName(host)} has no address`);
    const isSafe = isHostAllowed || addresses.every(({ address }) => isPublicAddress(address));
    if (!isSafe) throw createAddressError(shown);
    return addresses;
  }

  return {
    parseUrl(text, base) {
      if (!URL.canParse(text, base?.href)) throw new QmError("invalid_arguments", `${quoteUrl(text)} is not a URL`);
      const url = new URL(text, base);
      const refuse = (why: string) => new QmError("address_refused", `${quoteUrl(text)} ${why}`);
      if (!["http:", "https:"].includes(url.protocol)) throw refuse("is not an http or https URL");
      if (url.username !== "" || url.password !== "") throw refuse("holds a user name or a password");
      url.hash = "";
      // `localhost.` is the same host, and the list of allowed hosts has one spelling.
      url.hostname = url.hostname.replace(/\.+$/, "");
      return url;
    },
    async check(url) {
      await resolve(url.hostname, isAllowed(url.hostname, getPort(url)), url.host);
    },
    guard(createConnector) {
      return (options, callback) => {
        const host = isIP(options.hostname) === 6 ? `[${options.hostname}]` : options.hostname;
        const isHostAllowed = isAllowed(host, getPort(options));
        // An address is not looked up, so it is checked here.
        if (isIP(options.hostname) !== 0 && !isHostAllowed && !isPublicAddress(options.hostname))
          return callback(createAddressError(host), null);
        const find: LookupFunction = (name, { all }, done) => {
          resolve(name, isHostAllowed).then(
            (found) =>
              all
                ? done(
                    null,
                    found.map((each) => ({ ...each })),
                  )
                : answerOne(found, done),
            (thrown: NodeJS.ErrnoException) => done(thrown, []),
          );
        };
        createConnector(find)(options, (...result) => {
          const [failure, socket] = result;
          if (failure !== null || isHostAllowed || isPublicAddress(socket.remoteAddress ?? ""))
            return callback(...result);
          socket.destroy();
          callback(createAddressError(host), null);
        });
      };
    },
  };
}

function answerOne([first]: readonly HostAddress[], done: Parameters<LookupFunction>[2]): void {
  done(null, first?.address ?? "", first?.family);
}

/** The host as URLs write it, with the port if one is given. */
function normalizeAllowedHost(text: string): string {
  const port = /:(\d+)$/.exec(text)?.[1];
  if (!URL.canParse(`http://${text}`))
    throw new QmError("invalid_config", `${quoteName(text)} is not a host or host:port`);
  const { hostname } = new URL(`http://${text}`);
  return port === undefined ? hostname : `${hostname}:${Number(port)}`;
}

/** URLs and undici leave the port out if it is the one of the protocol. */
const getPort = ({ port, protocol }: { readonly port: string; readonly protocol: string }): string =>
  port || (protocol === "https:" ? "443" : "80");
/** Credentials in an address are not repeated. */
const quoteUrl = (text: string): string => quoteName(clip(text.replace(/\/\/[^/?#]*@/, "//…@"), 200));

/** Does not say what the name resolves to: that would describe the network to a model. */
const createAddressError = (host: string): QmError =>
  new QmError("address_refused", `${quoteName(host)} is not a public address`, {
    hint: "Only public addresses can be reached. An operator can allow a host in providers.web.allow_hosts.",
  });

const NOT_PUBLIC_IPV4 = [
  "0.0.0.0/8", // this network
  "10.0.0.0/8", // private
  "100.64.0.0/10", // shared by the customers of a carrier
  "127.0.0.0/8", // loopback
  "168.63.129.16/32", // answers each virtual machine of a large cloud
  "169.254.0.0/16", // link-local, with the metadata services of clouds
  "172.16.0.0/12", // private
  "192.0.0.0/24", // protocol assignments
  "192.0.2.0/24", // documentation
  "192.88.99.0/24", // relays of 6to4
  "192.168.0.0/16", // private
  "198.18.0.0/15", // benchmarks
  "198.51.100.0/24", // documentation
  "203.0.113.0/24", // documentation
  "224.0.0.0/4", // multicast
  "240.0.0.0/4", // reserved, and broadcast
];
/** Inside the only public range. An address that embeds an IPv4 address is refused, because a relay could lead anywhere. */
const NOT_PUBLIC_IPV6 = [
  "2001::/23", // protocol assignments, with Teredo
  "2001:db8::/32", // documentation
  "2002::/16", // 6to4
  "3fff::/20", // documentation
];
const notPublicIpv4 = createAddressList(NOT_PUBLIC_IPV4, "ipv4");
const notPublicIpv6 = createAddressList(NOT_PUBLIC_IPV6, "ipv6");
const publicIpv6 = createAddressList(["2000::/3"], "ipv6");

function createAddressList(ranges: readonly string[], family: "ipv4" | "ipv6"): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [address = "", bits] = range.split("/");
    list.addSubnet(address, Number(bits), family);
  }
  return list;
}

/** Whether an address is public unicast. A text that is no plain address, or one with a zone, is not. */
function isPublicAddress(address: string): boolean {
  if (isIPv4(address)) return !notPublicIpv4.check(address, "ipv4");
  if (!isIPv6(address) || address.includes("%")) return false;
  return publicIpv6.check(address, "ipv6") && !notPublicIpv6.check(address, "ipv6");
}

import { BlockList, isIPv4, isIPv6 } from "node:net";

const refused = new BlockList();
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
/** Inside the only global range, 2000::/3. What embeds an IPv4 address is refused, because a relay could lead anywhere. */
const NOT_PUBLIC_IPV6 = [
  "2001::/23", // protocol assignments, with Teredo
  "2001:db8::/32", // documentation
  "2002::/16", // 6to4
  "3fff::/20", // documentation
];
for (const range of NOT_PUBLIC_IPV4) addRange(refused, range, "ipv4");
for (const range of NOT_PUBLIC_IPV6) addRange(refused, range, "ipv6");
const global = new BlockList();
addRange(global, "2000::/3", "ipv6");

function addRange(list: BlockList, range: string, family: "ipv4" | "ipv6"): void {
  const [address = "", bits] = range.split("/");
  list.addSubnet(address, Number(bits), family);
}

/** Whether an address is public unicast. A text that is no plain address, or one with a zone, is not. */
export function isPublicAddress(address: string): boolean {
  if (isIPv4(address)) return !refused.check(address, "ipv4");
  if (!isIPv6(address) || address.includes("%")) return false;
  return global.check(address, "ipv6") && !refused.check(address, "ipv6");
}

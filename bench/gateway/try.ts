import { connect, type Address } from "./driver.ts";
import { readFileSync } from "node:fs";
const bin = readFileSync("/tmp/gwbench/bin","utf8").trim();
const url = readFileSync("/tmp/gwbench/url","utf8").trim();
const up = "/work/main/bench/gateway/upstream.mjs";
async function run(name: string, address: Address, tool: string, args: object, era: any = "legacy", n = 300) {
  const { client } = await connect(address, era);
  const { tools } = await client.listTools();
  const times: number[] = [];
  for (let i = 0; i < n; i++) { const t = performance.now(); const r: any = await client.callTool({ name: tool, arguments: args as any }); times.push(performance.now()-t); if (i===0) console.log(JSON.stringify(r).slice(0,200)); if (r.isError) throw new Error(JSON.stringify(r)); }
  const s = times.slice(n/3).sort((a,b)=>a-b);
  console.log(name, era, tools.length, "p50", s[s.length>>1]!.toFixed(2), "p99", s[Math.floor(s.length*.99)]!.toFixed(2));
  await client.close();
}
const which = process.argv.slice(2);
const want = (x: string) => which.length === 0 || which.includes(x);
if (want("direct")) { await run("direct stdio", { kind: "stdio", command: ["node", up, "stdio"], cwd: "/tmp" }, "echo", {text:"hi"});
for (const era of ["legacy","modern"]) await run("direct http", { kind: "http", url }, "echo", {text:"hi"}, era); }
const ours = { kind: "stdio", cwd: "/tmp/gwbench/ours", env: { PASSING: "passing-token-passing-token-passing" } } as const;
if (want("mcp")) for (const s of ["pipe","web"]) {
 await run("qm mcp universal "+s, { ...ours, command: ["node", bin, "mcp"] }, "invoke_action", { action_name: `mcp__${s}__echo`, args: {text:"hi"} });
 await run("qm mcp passing "+s, { ...ours, command: ["node", bin, "mcp", "--profile", "passing"] }, s === "pipe" ? "echo" : "echo", {text:"hi"});
}
if (want("executor")) for (const s of ["pipe","web"]) await run("executor http "+s, { kind: "http", url: "http://127.0.0.1:14788/mcp", token: "tok" }, "execute", { code: `return await tools.${s}.org.main.echo({ text: "hi" });` }, "legacy", 12);
if (want("hub")) for (const s of ["pipe","web"]) await run("mcp-hub "+s, { kind: "sse", url: "http://localhost:14900/mcp" }, `${s}__echo`, { text: "hi" });
process.exit();

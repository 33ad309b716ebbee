/** Report every call to an OpenTelemetry SDK. */
import assert from "node:assert/strict";
import { trace } from "@opentelemetry/api";
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";

const exporter = new InMemorySpanExporter();
trace.setGlobalTracerProvider(new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }));

// #region tracer

import { createQuartermaster } from "../src/index.ts";
import { openTelemetryTracer } from "../src/telemetry/opentelemetry.ts";

const qm = await createQuartermaster({ tracer: await openTelemetryTracer() });

// #endregion

qm.register({
  name: "add",
  description: "Add two numbers.",
  inputSchema: { type: "object", properties: { a: { type: "number" }, b: { type: "number" } } },
  effect: "pure",
  scope: "generalist",
  handler: ({ a, b }) => Number(a) + Number(b),
});
await qm.invoke("tool__add", { a: 1, b: 2 });
await qm.close();

const [span] = exporter.getFinishedSpans();
console.log(span?.name, span?.attributes);
assert.equal(span?.name, "execute_tool tool__add");
assert.equal(span.attributes["quartermaster.policy.decision"], "allow");
assert.equal(span.attributes["gen_ai.tool.call.arguments"], undefined);

// Ask an agent of the AI SDK from version 7 on, whose telemetry is a package of its own.
import { readFileSync } from "node:fs";
import { createOpenAI } from "@ai-sdk/openai";
import { OpenTelemetry } from "@ai-sdk/otel";
import { NodeSDK } from "@opentelemetry/sdk-node";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { isStepCount, registerTelemetry, tool, ToolLoopAgent } from "ai";
import { z } from "zod";
const sdk = new NodeSDK({ traceExporter: new OTLPTraceExporter() });
sdk.start();
registerTelemetry(new OpenTelemetry({ runtimeContext: true }));
const { system, questions, model } = JSON.parse(readFileSync(0, "utf-8"));
const find_order = tool({ description: "Return the state of an order.", inputSchema: z.object({ order: z.string() }),
  execute: async ({ order }) => `Order ${order} is on its way.` });
const agent = new ToolLoopAgent({
  model: createOpenAI({ baseURL: process.env.OPENAI_BASE_URL }).chat(model), instructions: system, tools: { find_order },
  stopWhen: isStepCount(3), runtimeContext: { sessionId: "one" },
  telemetry: { functionId: "shop", includeRuntimeContext: { sessionId: true } },
});
for (const prompt of questions) {
  const { textStream } = await agent.stream({ prompt });
  for await (const _ of textStream);
}
await sdk.shutdown();

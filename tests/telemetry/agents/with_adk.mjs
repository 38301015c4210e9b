// Ask an agent of Google's Agent Development Kit, which instruments itself.
import { readFileSync } from "node:fs";
import { FunctionTool, Gemini, InMemoryRunner, LlmAgent, maybeSetOtelProviders } from "@google/adk";
import { setDefaultBaseUrls } from "@google/genai";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { BatchSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { z } from "zod";
setDefaultBaseUrls({ geminiUrl: process.env.GEMINI_BASE_URL });
const processor = new BatchSpanProcessor(new OTLPTraceExporter());
delete process.env.OTEL_EXPORTER_OTLP_ENDPOINT; // for which it would make a second exporter
maybeSetOtelProviders([{ spanProcessors: [processor] }]);
const { system, questions, model } = JSON.parse(readFileSync(0, "utf-8"));
const find_order = new FunctionTool({ name: "find_order", description: "Return the state of an order.",
  parameters: z.object({ order: z.string() }), execute: ({ order }) => `Order ${order} is on its way.` });
const agent = new LlmAgent({ name: "shop", model: new Gemini({ model, apiKey: "none" }), instruction: system, tools: [find_order] });
const runner = new InMemoryRunner({ agent, appName: "shop" });
for (const text of questions) {
  const { id: sessionId } = await runner.sessionService.createSession({ appName: "shop", userId: "one" });
  const newMessage = { role: "user", parts: [{ text }] };
  for await (const _ of runner.runAsync({ userId: "one", sessionId, newMessage }));
}
await processor.forceFlush();
process.exit(0);

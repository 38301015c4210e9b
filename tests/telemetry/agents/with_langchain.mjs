// Ask an agent of LangChain.js, instrumented by OpenInference.
import { readFileSync } from "node:fs";
import { NodeSDK } from "@opentelemetry/sdk-node";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { LangChainInstrumentation } from "@arizeai/openinference-instrumentation-langchain";
import * as Callbacks from "@langchain/core/callbacks/manager";
import { createAgent, tool } from "langchain";
import { ChatOpenAI } from "@langchain/openai";
import { z } from "zod";
const sdk = new NodeSDK({ traceExporter: new OTLPTraceExporter() });
sdk.start();
new LangChainInstrumentation().manuallyInstrument(Callbacks);
const { system, questions, model } = JSON.parse(readFileSync(0, "utf-8"));
const find_order = tool(async ({ order }) => `Order ${order} is on its way.`, {
  name: "find_order", description: "Return the state of an order.", schema: z.object({ order: z.string() }),
});
for (const question of questions) {
  const agent = createAgent({ model: new ChatOpenAI({ model }), tools: [find_order], systemPrompt: system, name: "shop" });
  await agent.invoke({ messages: [{ role: "user", content: question }] });
}
await sdk.shutdown();

// Ask an agent of the Vercel AI SDK, with its own telemetry.
import { readFileSync } from "node:fs";
import { createOpenAI } from "@ai-sdk/openai";
import { NodeSDK } from "@opentelemetry/sdk-node";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { generateText, stepCountIs, tool } from "ai";
import { z } from "zod";

const sdk = new NodeSDK({ traceExporter: new OTLPTraceExporter() });
sdk.start();
const { system, questions, model } = JSON.parse(readFileSync(0, "utf-8"));
const find_order = tool({
  description: "Return the state of an order.",
  inputSchema: z.object({ order: z.string() }),
  execute: async ({ order }) => `Order ${order} is on its way.`,
});
for (const prompt of questions) {
  await generateText({
    model: createOpenAI({ baseURL: process.env.OPENAI_BASE_URL }).chat(model),
    system, prompt, tools: { find_order }, stopWhen: stepCountIs(3),
    experimental_telemetry: { isEnabled: true },
  });
}
await sdk.shutdown();

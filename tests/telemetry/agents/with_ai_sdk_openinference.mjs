// Ask an agent of the Vercel AI SDK, whose spans get attributes of OpenInference, too.
import { readFileSync } from "node:fs";
import { isOpenInferenceSpan, OpenInferenceBatchSpanProcessor } from "@arizeai/openinference-vercel";
import { createOpenAI } from "@ai-sdk/openai";
import { NodeSDK } from "@opentelemetry/sdk-node";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { generateText, stepCountIs, tool } from "ai";
import { z } from "zod";
const processor = new OpenInferenceBatchSpanProcessor({ exporter: new OTLPTraceExporter(), spanFilter: isOpenInferenceSpan });
const sdk = new NodeSDK({ spanProcessors: [processor] });
sdk.start();
const { system, questions, model } = JSON.parse(readFileSync(0, "utf-8"));
const find_order = tool({ description: "Return the state of an order.", inputSchema: z.object({ order: z.string() }),
  execute: async ({ order }) => `Order ${order} is on its way.` });
for (const prompt of questions) {
  await generateText({
    model: createOpenAI({ baseURL: process.env.OPENAI_BASE_URL }).chat(model),
    system, prompt, tools: { find_order }, stopWhen: stepCountIs(3),
    experimental_telemetry: { isEnabled: true, functionId: "shop", metadata: { sessionId: "one" } },
  });
}
await sdk.shutdown();

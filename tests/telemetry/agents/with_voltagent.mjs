// Ask an agent of VoltAgent, which instruments itself.
import { readFileSync } from "node:fs";
import { createOpenAI } from "@ai-sdk/openai";
import { BatchSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { Agent, createTool, VoltAgentObservability } from "@voltagent/core";
import { z } from "zod";
const processor = new BatchSpanProcessor(new OTLPTraceExporter());
const observability = new VoltAgentObservability({ spanProcessors: [processor] });
const { system, questions, model } = JSON.parse(readFileSync(0, "utf-8"));
const find_order = createTool({ name: "find_order", description: "Return the state of an order.",
  parameters: z.object({ order: z.string() }), execute: async ({ order }) => `Order ${order} is on its way.` });
const agent = new Agent({ name: "shop", instructions: system, tools: [find_order], memory: false, observability,
  model: createOpenAI({ baseURL: process.env.OPENAI_BASE_URL }).chat(model) });
for (const question of questions) await agent.generateText(question, { conversationId: "one" });
await processor.forceFlush();
process.exit(0);

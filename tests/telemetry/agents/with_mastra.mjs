// Ask an agent of Mastra, which instruments itself.
import { readFileSync } from "node:fs";
import { Mastra } from "@mastra/core";
import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { Observability } from "@mastra/observability";
import { OtelExporter } from "@mastra/otel-exporter";
import { createOpenAI } from "@ai-sdk/openai";
import { z } from "zod";
const { system, questions, model } = JSON.parse(readFileSync(0, "utf-8"));
const find_order = createTool({ id: "find_order", description: "Return the state of an order.",
  inputSchema: z.object({ order: z.string() }),
  execute: async (given) => `Order ${given.order ?? given.context.order} is on its way.` });
const agent = new Agent({ id: "shop", name: "shop", instructions: system, tools: { find_order },
  model: createOpenAI({ baseURL: process.env.OPENAI_BASE_URL }).chat(model) });
const exporter = new OtelExporter({ provider: { custom: { endpoint: `${process.env.OTEL_EXPORTER_OTLP_ENDPOINT}/v1/traces`, protocol: "http/protobuf" } } });
const mastra = new Mastra({ agents: { agent }, logger: false,
  observability: new Observability({ configs: { otel: { serviceName: "shop", exporters: [exporter] } } }) });
for (const question of questions) await mastra.getAgent("agent").generate(question);
await mastra.observability.shutdown?.();
await exporter.flush?.();
await exporter.shutdown?.();
await mastra.shutdown?.();

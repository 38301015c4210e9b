// Ask a flow of Genkit, which instruments itself.
import { readFileSync } from "node:fs";
import { openAI } from "@genkit-ai/compat-oai/openai";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { BatchSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { genkit, z } from "genkit";
import { enableTelemetry } from "genkit/tracing";
const processor = new BatchSpanProcessor(new OTLPTraceExporter());
await enableTelemetry({ spanProcessors: [processor] });
const { system, questions, model } = JSON.parse(readFileSync(0, "utf-8"));
const ai = genkit({ plugins: [openAI({ apiKey: "none", baseURL: process.env.OPENAI_BASE_URL })] });
const find_order = ai.defineTool({ name: "find_order", description: "Return the state of an order.",
  inputSchema: z.object({ order: z.string() }), outputSchema: z.string() }, async ({ order }) => `Order ${order} is on its way.`);
const shop = ai.defineFlow({ name: "shop", inputSchema: z.string(), outputSchema: z.string() },
  async (prompt) => (await ai.generate({ model: openAI.model(model), system, prompt, tools: [find_order] })).text);
for (const question of questions) await shop(question);
await processor.forceFlush();
process.exit(0);

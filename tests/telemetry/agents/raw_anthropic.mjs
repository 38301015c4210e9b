// Ask with a plain client of Anthropic, instrumented by OpenInference.
import { readFileSync } from "node:fs";
import Anthropic from "@anthropic-ai/sdk";
import { AnthropicInstrumentation } from "@arizeai/openinference-instrumentation-anthropic";
import { NodeSDK } from "@opentelemetry/sdk-node";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
const sdk = new NodeSDK({ traceExporter: new OTLPTraceExporter() });
sdk.start();
new AnthropicInstrumentation().manuallyInstrument(Anthropic);
const { system, questions, model } = JSON.parse(readFileSync(0, "utf-8"));
const tools = [{ name: "find_order", description: "Return the state of an order.",
  input_schema: { type: "object", properties: { order: { type: "string" } }, required: ["order"] } }];
const client = new Anthropic();
for (const question of questions) {
  const messages = [{ role: "user", content: question }];
  for (;;) {
    const { content } = await client.messages.create({ model, system, messages, tools, max_tokens: 100 });
    const calls = content.filter(({ type }) => type === "tool_use");
    if (!calls.length) break;
    messages.push({ role: "assistant", content }, { role: "user", content: calls.map(({ id, input: { order } }) => (
      { type: "tool_result", tool_use_id: id, content: `Order ${order} is on its way.` })) });
  }
}
await sdk.shutdown();

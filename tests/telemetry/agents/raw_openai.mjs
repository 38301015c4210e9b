// Ask with a plain client of OpenAI, instrumented by OpenInference.
import { readFileSync } from "node:fs";
import { NodeSDK } from "@opentelemetry/sdk-node";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { OpenAIInstrumentation } from "@arizeai/openinference-instrumentation-openai";
import OpenAI from "openai";
const sdk = new NodeSDK({ traceExporter: new OTLPTraceExporter() });
sdk.start();
new OpenAIInstrumentation().manuallyInstrument(OpenAI);
const { system, questions, model } = JSON.parse(readFileSync(0, "utf-8"));
const tools = [{ type: "function", function: { name: "find_order", description: "Return the state of an order.",
  parameters: { type: "object", properties: { order: { type: "string" } }, required: ["order"] } } }];
const client = new OpenAI();
for (const question of questions) {
  const messages = [{ role: "system", content: system }, { role: "user", content: question }];
  for (;;) {
    const { message } = (await client.chat.completions.create({ model, messages, tools })).choices[0];
    if (!message.tool_calls?.length) break;
    messages.push(message);
    for (const call of message.tool_calls) {
      const { order } = JSON.parse(call.function.arguments);
      messages.push({ role: "tool", tool_call_id: call.id, content: `Order ${order} is on its way.` });
    }
  }
}
await sdk.shutdown();

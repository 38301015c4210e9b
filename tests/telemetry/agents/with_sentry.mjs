// Ask with a plain client of OpenAI whose spans Sentry makes, and send them to a collector, too.
import { readFileSync } from "node:fs";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { BatchSpanProcessor } from "@opentelemetry/sdk-trace-base";
import * as Sentry from "@sentry/node";
import OpenAI from "openai";
const collector = new BatchSpanProcessor(new OTLPTraceExporter());
const [scheme, address] = process.env.OTEL_EXPORTER_OTLP_ENDPOINT.split("//");
Sentry.init({ dsn: `${scheme}//key@${address}/1`, tracesSampleRate: 1, openTelemetrySpanProcessors: [collector] });
const { system, questions, model } = JSON.parse(readFileSync(0, "utf-8"));
const tools = [{ type: "function", function: { name: "find_order", description: "Return the state of an order.",
  parameters: { type: "object", properties: { order: { type: "string" } }, required: ["order"] } } }];
const client = Sentry.instrumentOpenAiClient(new OpenAI(), { recordInputs: true, recordOutputs: true });
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
await collector.forceFlush();
await Sentry.close();

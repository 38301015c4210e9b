// Ask with a plain client of OpenAI in functions that Laminar traces.
import { readFileSync } from "node:fs";
import { Laminar, observe } from "@lmnr-ai/lmnr";
import OpenAI from "openai";
const { hostname, port } = new URL(process.env.OTEL_EXPORTER_OTLP_ENDPOINT);
Laminar.initialize({ projectApiKey: "none", baseUrl: `http://${hostname}`, httpPort: Number(port), forceHttp: true,
  instrumentModules: { openAI: OpenAI } });
const { system, questions, model } = JSON.parse(readFileSync(0, "utf-8"));
const tools = [{ type: "function", function: { name: "find_order", description: "Return the state of an order.",
  parameters: { type: "object", properties: { order: { type: "string" } }, required: ["order"] } } }];
const client = new OpenAI();
const find = async ({ order }) => `Order ${order} is on its way.`;
async function ask(question) {
  const messages = [{ role: "system", content: system }, { role: "user", content: question }];
  for (;;) {
    const { message } = (await client.chat.completions.create({ model, messages, tools })).choices[0];
    if (!message.tool_calls?.length) return message.content;
    messages.push(message);
    for (const { id, function: { name, arguments: given } } of message.tool_calls) {
      const content = await observe({ name, spanType: "TOOL" }, find, JSON.parse(given));
      messages.push({ role: "tool", tool_call_id: id, content });
    }
  }
}
for (const question of questions) await observe({ name: "support", sessionId: "one" }, ask, question);
await Laminar.shutdown();

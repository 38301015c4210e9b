"""Ask with the client of Azure AI Inference, which instruments itself."""

import json
import os

from asking import send_to_receiver
from azure.ai.inference import ChatCompletionsClient
from azure.ai.inference.models import (
    AssistantMessage,
    ChatCompletionsToolDefinition,
    FunctionDefinition,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from azure.ai.inference.tracing import AIInferenceInstrumentor
from azure.core.credentials import AzureKeyCredential
from azure.core.settings import settings
from shop import MODEL, QUESTIONS, SYSTEM, TOOL, find_order

settings.tracing_implementation = "opentelemetry"
provider = send_to_receiver()
AIInferenceInstrumentor().instrument(enable_content_recording=True)
client = ChatCompletionsClient(os.environ["OPENAI_BASE_URL"], AzureKeyCredential("none"))
tool = ChatCompletionsToolDefinition(function=FunctionDefinition(**TOOL["function"]))
for question in QUESTIONS:
    messages = [SystemMessage(SYSTEM), UserMessage(question)]
    while True:
        message = client.complete(model=MODEL, messages=messages, tools=[tool]).choices[0].message
        if not message.tool_calls:
            break
        messages.append(AssistantMessage(tool_calls=message.tool_calls))
        for call in message.tool_calls:
            found = find_order(**json.loads(call.function.arguments))
            messages.append(ToolMessage(found, tool_call_id=call.id))
provider.shutdown()

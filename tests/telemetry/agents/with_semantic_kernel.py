"""Ask an agent of Semantic Kernel, which instruments itself."""

import asyncio

from asking import send_to_receiver
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.functions import kernel_function
from shop import MODEL, QUESTIONS, SYSTEM, find_order


class Orders:
    @kernel_function(name="find_order")
    def find(self, order: str) -> str:
        """Return the state of an order."""
        return find_order(order)


provider = send_to_receiver()


async def ask():
    for question in QUESTIONS:
        service = OpenAIChatCompletion(ai_model_id=MODEL)
        agent = ChatCompletionAgent(service=service, name="shop", instructions=SYSTEM, plugins=[Orders()])
        await agent.get_response(question.replace("@call ", "@call Orders-"))


asyncio.run(ask())
provider.shutdown()

"""Ask an agent of AG2, which instruments itself."""

import os

from asking import send_to_receiver
from autogen import ConversableAgent, LLMConfig, register_function
from autogen.opentelemetry import instrument_agent, instrument_llm_wrapper
from shop import MODEL, QUESTIONS, SYSTEM, TOOL
from shop import find_order as find

provider = send_to_receiver()
instrument_llm_wrapper(tracer_provider=provider, capture_messages=True)


def find_order(order: str) -> str:
    return find(order)


for question in QUESTIONS:
    model = LLMConfig({"model": MODEL, "api_key": "none", "base_url": os.environ["OPENAI_BASE_URL"]})
    shop = ConversableAgent("shop", system_message=SYSTEM, llm_config=model, human_input_mode="NEVER")
    customer = ConversableAgent(
        "customer",
        human_input_mode="NEVER",
        llm_config=False,
        max_consecutive_auto_reply=1,
        is_termination_msg=lambda message: not message.get("tool_calls"),
    )
    about = TOOL["function"]["description"]
    register_function(find_order, caller=shop, executor=customer, name="find_order", description=about)
    for each in (shop, customer):
        instrument_agent(each, tracer_provider=provider)
    customer.initiate_chat(shop, message=question, max_turns=3)
provider.shutdown()

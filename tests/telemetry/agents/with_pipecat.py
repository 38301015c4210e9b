"""Ask a pipeline of Pipecat, which instruments itself, with texts only."""

import asyncio
import os

from asking import send_to_receiver
from pipecat.adapters.schemas.function_schema import FunctionSchema
from pipecat.adapters.schemas.tools_schema import ToolsSchema
from pipecat.frames.frames import EndFrame, LLMRunFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.runner import PipelineRunner
from pipecat.pipeline.task import PipelineParams, PipelineTask
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.utils.tracing.setup import setup_tracing
from shop import MODEL, QUESTIONS, SYSTEM, TOOL
from shop import find_order as find

provider = send_to_receiver()
setup_tracing(service_name="shop")


async def ask(question: str) -> None:
    model = OpenAILLMService(api_key="none", base_url=os.environ["OPENAI_BASE_URL"], model=MODEL)

    async def find_order(call) -> None:
        await call.result_callback(find(**call.arguments))

    model.register_function("find_order", find_order)
    function = TOOL["function"]
    schema = FunctionSchema(
        name=function["name"],
        description=function["description"],
        properties=function["parameters"]["properties"],
        required=function["parameters"]["required"],
    )
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    pair = LLMContextAggregatorPair(LLMContext(messages, ToolsSchema(standard_tools=[schema])))
    task = PipelineTask(
        Pipeline([pair.user(), model, pair.assistant()]),
        params=PipelineParams(enable_metrics=True, enable_usage_metrics=True),
        enable_tracing=True,
        conversation_id="one",
    )
    await task.queue_frames([LLMRunFrame()])
    running = asyncio.create_task(PipelineRunner(handle_sigint=False).run(task))
    await asyncio.sleep(2)  # the call of the tool and the answer after it
    await task.queue_frame(EndFrame())
    await running


async def ask_all() -> None:
    for question in QUESTIONS:
        await ask(question)


asyncio.run(ask_all())
provider.shutdown()

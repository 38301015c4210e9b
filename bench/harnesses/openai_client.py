"""How a task asks the model where a peer leaves that to its user: with OpenAI's own client, as its guides show it."""

from openai import AsyncOpenAI

from bench.harnesses.job import Job

KEY = "none"


def make_client(job: Job) -> AsyncOpenAI:
    """Return a client of the job's server; it belongs to the event loop that first uses it."""
    return AsyncOpenAI(base_url=job.url, api_key=KEY, max_retries=0)


async def ask(client: AsyncOpenAI, asked: str) -> str:
    """Return the model's answer."""
    reply = await client.chat.completions.create(model="fake", messages=[{"role": "user", "content": asked}])
    return reply.choices[0].message.content or ""

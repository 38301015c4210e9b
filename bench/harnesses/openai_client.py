"""Model calls for peers that leave them to the user: with OpenAI's own client, as their guides show."""

from openai import AsyncOpenAI

from bench.harnesses.job import Job

KEY = "none"


def make_client(job: Job) -> AsyncOpenAI:
    """Return a client for the job's server; it belongs to the event loop that first uses it."""
    return AsyncOpenAI(base_url=job.url, api_key=KEY, max_retries=0)


async def ask(client: AsyncOpenAI, prompt: str) -> str:
    """Return the model's answer."""
    reply = await client.chat.completions.create(model="fake", messages=[{"role": "user", "content": prompt}])
    return reply.choices[0].message.content or ""

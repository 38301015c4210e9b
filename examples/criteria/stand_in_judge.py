"""Stands in for a model, so that the example needs no key: it finds an answer as helpful as it has numbers in it.

It is no judge for real answers. A real one reads the same prompt, and replies with the same JSON.
"""

import json
import re

from agentv import ProviderRequest, ProviderResponse


class StandInJudge:
    """Replies as a model does that was asked to score several criteria at once."""

    kind = "stand-in"

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Read the prompt that a model would be sent, and answer with one verdict for each criterion."""
        nonce, answer = re.search(
            r"<<<candidate_answer (\w+)>>>\n(.*?)\n<<<end of", request.question, re.DOTALL
        ).groups()
        numbers = re.findall(r"\d+", answer)
        verdicts = [
            {"name": "helpful", "score": min(5, 1 + len(numbers)), "reasoning": f"names {len(numbers)} figures"},
            {"name": "faithful", "score": "30" in numbers, "reasoning": "the 30 days are the ones of the policy"},
        ]
        reply = {"nonce": nonce, "criteria": verdicts, "overall_reasoning": "counted, not understood"}
        return ProviderResponse(text=f"```json\n{json.dumps(reply)}\n```")

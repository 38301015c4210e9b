"""A stand-in for your code: any function, sync or async, that takes a request and returns text."""

from agentv import ProviderRequest


def answer(request: ProviderRequest) -> str:
    """Return the words of the question in reverse order."""
    return " ".join(reversed(request.question.split()))

"""The text that `agentv serve-fake` prints when it is ready: the base URLs, and targets to paste."""

from collections.abc import Mapping

from agentv.types.json_value import JsonObject

SCHEMA = "agentv-serve-fake-1"
_TITLES: Mapping[str, str] = {
    "openai": "OpenAI",
    "azure": "Azure OpenAI",
    "anthropic": "Anthropic",
    "gemini": "Gemini",
    "calls": "log of calls",
}


def addresses(url: str) -> Mapping[str, str]:
    """Return the base URL of each API, as clients expect it, and the URL of the log."""
    return {"openai": f"{url}/v1", "azure": url, "anthropic": url, "gemini": url, "calls": f"{url}/calls"}


def targets_yaml(url: str) -> str:
    """Return a targets file with one target for each API; the first one is its own judge."""
    return f"""\
targets:
  - {{name: default, provider: openai, base_url: "{url}/v1", model: fake, judge_target: default}}
  - {{name: fake-azure, provider: azure, endpoint: "{url}", deployment: fake, api_key: "${{{{ FAKE_KEY }}}}"}}
  - {{name: fake-anthropic, provider: anthropic, base_url: "{url}", model: fake, api_key: "${{{{ FAKE_KEY }}}}"}}
  - {{name: fake-gemini, provider: gemini, base_url: "{url}", model: fake, api_key: "${{{{ FAKE_KEY }}}}"}}
  - {{name: busy, provider: openai, base_url: "{url}/v1", model: fake@429-x1}}   # refused once, then answered
"""


def welcome(url: str) -> str:
    """Return the text for the terminal."""
    rows = "\n".join(f"  {_TITLES[name]:<14}{place}" for name, place in addresses(url).items())
    return f"""\
The fake model server is ready; Ctrl-C stops it.

{rows}

As targets.yaml (FAKE_KEY may be anything; the first one needs none):

{targets_yaml(url)}"""


def welcome_json(url: str) -> JsonObject:
    """Return the same as JSON."""
    return {"schema": SCHEMA, "urls": dict(addresses(url)), "targets_yaml": targets_yaml(url)}


def farewell(billed: int, calls: int) -> str:
    """Return the line that is printed when the server stops."""
    return f"Stopped after {calls} {'call' if calls == 1 else 'calls'}, {billed} of them billed."

"""`agentv run --help`: the options that people use first, then all others in groups."""

import re

from click.testing import CliRunner

from agentv.cli.main import agentv
from agentv.cli.running.run import command

HEADINGS = [
    "Most used",
    "Select targets, cases and evaluators",
    "Repeat and reuse",
    "Limits",
    "Gates",
    "Output",
    "Several machines",
]


def sections() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    heading = ""
    for line in CliRunner().invoke(agentv, ["run", "--help"]).output.splitlines():
        if line and not line.startswith(" ") and line.endswith(":"):
            heading = line.removesuffix(":")
        elif (option := re.match(r"  (-[\w-]+)", line)) is not None:
            found.setdefault(heading, []).append(option[1])
    return found


def test_the_options_are_in_groups() -> None:
    assert list(sections()) == HEADINGS
    assert sections()["Most used"] == [
        "--target",
        "--case",
        "--tag",
        "--limit",
        "--trials",
        "--workers",
        "--gate",
        "-o",
        "-v",
        "--dry-run",
    ]


def test_every_option_is_in_one_group() -> None:
    listed = [option for options in sections().values() for option in options]
    assert len(listed) == len(set(listed))
    names = {name for each in command.params if each.param_type_name == "option" for name in each.opts[:1]}
    # click keeps the option of help of the first call, which in other tests may be without the names of `agentv`.
    assert set(listed) - {"-h", "--help"} == names - {"--help"}

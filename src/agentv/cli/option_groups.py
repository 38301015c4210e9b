"""The help of a command with many options, in groups: those that people use first, then the others by purpose."""

from collections.abc import Mapping
from typing import get_args

import click

from agentv.types.run_options import Flag, OptionGroup, run_options

_HEADINGS: Mapping[OptionGroup, str] = {
    "most used": "Most used",
    "select": "Select targets, cases and evaluators",
    "repeat": "Repeat and reuse",
    "limits": "Limits",
    "gates": "Gates",
    "output": "Output",
    "machines": "Several machines",
}
_OTHERS: Mapping[str, OptionGroup] = {
    "evaluators": "select",
    "outputs": "most used",
    "verbose": "most used",
    "dry_run": "most used",
    "pilot": "limits",
    "quota": "machines",
}
"""The groups of options that are none of RunOptions; all that are not here are about the output."""


class GroupedCommand(click.Command):
    """A command whose `--help` lists its options in groups, each with its usual spellings only."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, group by group."""
        records: dict[OptionGroup, list[tuple[str, str]]] = {group: [] for group in get_args(OptionGroup)}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record is not None and isinstance(option, click.Option):
                records[_group_of(option)].append((_usual_spellings(option, record[0]), record[1]))
        for group, listed in records.items():
            if listed:
                with formatter.section(_HEADINGS[group]):
                    formatter.write_dl(listed)


def _group_of(option: click.Parameter) -> OptionGroup:
    flags: dict[str, Flag] = {each.name: each.extra["flag"] for each in run_options()}
    name = option.name or ""
    return flags[name].group if name in flags else _OTHERS.get(name, "output")


def _usual_spellings(option: click.Parameter, spelled: str) -> str:
    """Return the spellings of an option without its long aliases."""
    for alias in [each for each in option.opts if each.startswith("--")][1:]:
        spelled = spelled.replace(f", {alias}", "")
    return spelled

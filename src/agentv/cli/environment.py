"""Defaults of options from the environment: `AGENTV_RUN_WORKERS` is that of `agentv run --workers`."""

import os
from collections.abc import Iterator, Sequence

import click
from click.core import ParameterSource
from click.types import StringParamType

_PREFIX = "AGENTV"


class _Lines(StringParamType):
    """Texts of a repeatable option: in its variable each is on a line of its own, since a gate has spaces."""

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        """Return the lines that are not blank."""
        return [line.strip() for line in rv.splitlines() if line.strip()]


def name_variables(command: click.Command, *path: str) -> None:
    """Give each option of a command and its subcommands the variable that is named after it."""
    for option in _options(command):
        name = next((each for each in option.opts if each.startswith("--")), option.opts[0]).lstrip("-")
        option.envvar = "_".join((_PREFIX, *path, name)).replace("-", "_").upper()
        if option.multiple and type(option.type) is StringParamType:
            option.type = _Lines()
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            name_variables(inner, *path, name)


def _options(command: click.Command) -> Iterator[click.Option]:
    return (each for each in command.params if isinstance(each, click.Option) and not each.is_eager)


def name_variable(error: click.ClickException) -> None:
    """Let the message of an error name the variable that gave the wrong value, if one did."""
    option = getattr(error, "param", None)
    context = getattr(error, "ctx", None)
    if isinstance(option, click.Option) and isinstance(context, click.Context):
        option.show_envvar = context.get_parameter_source(option.name or "") is ParameterSource.ENVIRONMENT


def variables_in_force(context: click.Context) -> tuple[str, ...]:
    """Return the variables that set options of the command that is called, as `NAME=value`, secrets redacted."""
    found = [
        each
        for each in _options(context.command)
        if context.get_parameter_source(each.name or "") is ParameterSource.ENVIRONMENT
    ]
    return tuple(f"{each.envvar}={_shown(str(each.envvar))}" for each in found)


def _shown(name: str) -> str:
    from agentv.templating.secrets import REDACTED, SecretRedactor, looks_secret
    from agentv.templating.store_url import secrets_of_urls

    value = os.environ.get(name, "")
    if looks_secret(name):
        return REDACTED
    pairs = (line.partition("=") for line in value.splitlines())
    secrets = [text for name, _, text in pairs if text and looks_secret(name.strip())]
    return SecretRedactor([*secrets, *secrets_of_urls([value])]).redact("; ".join(value.splitlines()))


def environment_notes(context: click.Context) -> tuple[str, ...]:
    """Return the notes of a run about variables: those that set its options, and those that are misspelt."""
    in_force = variables_in_force(context)
    notes = (f"set by the environment: {', '.join(in_force)}",) if in_force else ()
    return (*notes, *_misspelt_variables(context, context.command_path.split()[1:]))


def _misspelt_variables(context: click.Context, path: Sequence[str]) -> tuple[str, ...]:
    """Return a sentence for each variable whose name is nearly that of an option of the command that is called."""
    from agentv.types.errors import nearest

    start = "_".join((_PREFIX, *path, "")).replace("-", "_").upper()
    known = {str(each.envvar).removeprefix(start) for each in _options(context.command)}
    found = (name.removeprefix(start) for name in sorted(os.environ) if name.startswith(start))
    pairs = ((name, nearest(name, known)) for name in found if name not in known)
    return tuple(f"{start}{name} has no effect; did you mean {start}{near}?" for name, near in pairs if near)

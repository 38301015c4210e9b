"""`agentv completion`: the script that lets a shell complete agentv's commands and options."""

import os
from collections.abc import Mapping
from pathlib import PurePath

import click
from click.shell_completion import get_completion_class

INSTALL: Mapping[str, str] = {
    "bash": 'add this line to ~/.bashrc:  eval "$(agentv completion bash)"',
    "zsh": 'add this line to ~/.zshrc:  eval "$(agentv completion zsh)"',
    "fish": "agentv completion fish > ~/.config/fish/completions/agentv.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(sorted(INSTALL)), required=False)
@click.pass_context
def command(ctx: click.Context, shell: str | None) -> None:
    """Print the completion script for SHELL (default: the one you use)."""
    shell = shell or PurePath(os.environ.get("SHELL", "")).name
    if shell not in INSTALL:
        raise click.UsageError(f"Which shell? One of: {', '.join(sorted(INSTALL))}.", ctx)
    script = get_completion_class(shell)
    if script is None:
        raise click.UsageError(f"click, which makes the script, does not know {shell}.", ctx)
    click.echo(script(ctx.find_root().command, {}, "agentv", "_AGENTV_COMPLETE").source())
    click.echo(f"# To install: {INSTALL[shell]}")

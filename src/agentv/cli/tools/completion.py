"""`agentv completion`: print the shell completion script."""

import json
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

COMPLETION_SCHEMA = "agentv-completion-1"


@click.command()
@click.argument("shell", type=click.Choice(sorted(INSTALL)), required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the script and install command as one JSON object.")
@click.pass_context
def command(ctx: click.Context, shell: str | None, as_json: bool) -> None:  # noqa: FBT001 - click passes flags like this
    """Print the completion script for a shell (default: the one in $SHELL)."""
    shell = shell or PurePath(os.environ.get("SHELL", "")).name
    if shell not in INSTALL:
        raise click.UsageError(f"cannot detect the shell; name one of {', '.join(sorted(INSTALL))}.", ctx)
    script = get_completion_class(shell)
    if script is None:
        raise click.UsageError(f"the installed version of click has no completion for {shell}.", ctx)
    text = script(ctx.find_root().command, {}, "agentv", "_AGENTV_COMPLETE").source()
    if as_json:
        record = {"schema": COMPLETION_SCHEMA, "shell": shell, "script": text, "install": INSTALL[shell]}
        click.echo(json.dumps(record, indent=2))
        return
    click.echo(text)
    click.echo(f"# To install: {INSTALL[shell]}")

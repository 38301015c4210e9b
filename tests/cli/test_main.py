"""The command line as a whole."""

from click.testing import CliRunner

from agentv.cli.main import COMMANDS, agentv


def test_help_lists_every_command_that_is_not_hidden() -> None:
    lines = CliRunner().invoke(agentv, ["--help"]).output.splitlines()
    listed = {line.split()[0] for line in lines if line.startswith("  ") and line.strip()}
    assert {name for name, entry in COMMANDS.items() if not entry.hidden} - listed == set()

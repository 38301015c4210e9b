"""`agentv schema`: the JSON Schema of a file kind, for editors and other tools."""

from pathlib import Path

import click


@click.command()
@click.argument("kind", default="eval")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write it to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object that has the schema in it.")
def command(kind: str, output: Path | None, as_json: bool) -> None:  # noqa: FBT001 - click passes a flag so
    """Print the JSON Schema of a KIND of file.

    KIND is eval (the default), targets, config (.agentv.yaml), evaluation (the --config of `agentv score`), or results.
    """
    import json

    from agentv.loading.atomic_write import write_text
    from agentv.loading.schemas import json_schema
    from agentv.pipeline.plugin_loading import load_specs

    schema = json_schema(kind, load_specs())
    if output is not None:
        write_text(output, json.dumps(schema, indent=2) + "\n")
    if as_json:
        found = {"schema": "agentv-schema-1", "kind": kind, "file": str(output) if output else None}
        click.echo(json.dumps({**found, "json_schema": schema}))
    elif output is None:
        click.echo(json.dumps(schema, indent=2))
    else:
        click.echo(f"wrote {output}; point editors to it with a first line:\n# yaml-language-server: $schema={output}")

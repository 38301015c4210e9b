"""`agentv generate categories`: let a model propose failure categories from the notes of people."""

import os
from collections.abc import Sequence
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from agentv.cli.evals.generate import (
    EXIT_FAILED,
    EXIT_NOTHING,
    GenerateOptions,
    Stopped,
    make_setup,
    run_to_end,
    show_requests,
)
from agentv.cli.terminal import own_stdout, user_name
from agentv.engine.generate import generate
from agentv.engine.labels.proposals import (
    PROPOSALS_FILE,
    Proposal,
    accept_proposals,
    category_prompt,
    category_task,
    make_proposals,
    noted_labels,
    save_proposals,
)
from agentv.engine.planning.inputs import TargetsLoader, load_project_parts
from agentv.engine.running.clock import make_clock
from agentv.loading.files.places import find_home, find_repository_root
from agentv.loading.project import load_project
from agentv.reports.text.amounts import count_text
from agentv.reports.text.printable import one_line, printable_json
from agentv.storage.run.find import find_run
from agentv.storage.run.stored import StoredRun, open_run
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import pretty_json

SCHEMA = "agentv-category-proposals-1"


class CategoriesOptions(Struct, frozen=True, kw_only=True):
    """The options of `agentv generate categories` alone."""

    accept: bool = False
    only: tuple[str, ...] = ()


def generate_categories(reference: str, own: CategoriesOptions, options: GenerateOptions) -> int:
    """Propose categories for a run, or accept the proposed ones; return the exit code."""
    run = open_run(find_run(find_home(Path.cwd()), reference))
    if own.only and not own.accept:
        raise ConfigError("--only selects the proposed categories to accept; give --accept, too")
    if own.accept:
        accepted = accept_proposals(run, only=own.only, by=user_name(), now=make_clock()())
        _print(run, accepted, options, is_accepted=True)
        return 0
    return _propose(run, options)


def _propose(run: StoredRun, options: GenerateOptions) -> int:
    if options.target is None:
        raise ConfigError("name the model that proposes the categories: --target NAME")
    labels = noted_labels(run)
    if not labels:
        click.echo(f"run {run.run_id} has no label with a note that is neither a pass nor in a category", err=True)
        return EXIT_NOTHING
    with own_stdout() as stdout:
        cwd = Path.cwd()
        specs, _ = load_project_parts([cwd])
        known = TargetsLoader(options.run_options(), specs, cwd, os.environ).load_targets(cwd)
        project = load_project(cwd, find_repository_root(cwd))
        setup = replace(
            make_setup(category_prompt(), known, None, options, specs=specs),
            redact=project.redact,
            prices=project.prices,
        )
        task = category_task(labels)
        if options.dry_run:
            return show_requests([task], setup, options, stdout)
        try:
            (made,) = run_to_end(generate([task], setup))
        except Stopped as stop:
            return stop.report(run.folder / PROPOSALS_FILE)
    if made.value is None:
        reason = "no reply" if made.failure is None else made.failure.message
        click.echo(f"error: {one_line(reason)}\nnothing was proposed. Exit code {EXIT_FAILED}.", err=True)
        return EXIT_FAILED
    proposals = make_proposals(made.value, labels, target=setup.target.name)
    save_proposals(run.folder, proposals)
    _print(run, proposals.proposals, options, is_accepted=False)
    return 0


def _print(run: StoredRun, proposals: Sequence[Proposal], options: GenerateOptions, *, is_accepted: bool) -> None:
    if options.as_json:
        found: list[JsonValue] = [
            {
                "name": each.name,
                "description": each.description,
                "labels": list(each.labels),
                "examples": list(each.examples),
            }
            for each in proposals
        ]
        record: JsonObject = {"schema": SCHEMA, "run_id": run.run_id, "accepted": is_accepted, "categories": found}
        click.echo(printable_json(pretty_json(record)))
        return
    for each in proposals:
        click.echo(f"{one_line(each.name)} ({count_text(len(each.labels), 'label')}): {one_line(each.description)}")
        if not is_accepted:
            for example in each.examples:
                click.echo(f"  {one_line(example)}")
    if is_accepted:
        click.echo(
            f"Accepted {len(proposals):,} of the proposed categories; show them: agentv label categories {run.run_id}"
        )
    else:
        click.echo(f"Proposed, not in effect. Accept: agentv generate categories {run.run_id} --accept [--only NAME]")

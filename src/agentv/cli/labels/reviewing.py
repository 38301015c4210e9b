"""Draw or open a review queue, serve it until Ctrl-C, and print how far it is."""

import asyncio
import shlex
from collections.abc import Sequence
from pathlib import Path

import click
from msgspec import Struct

from agentv.cli.labels.label_file import read_labels
from agentv.cli.results.view import serve
from agentv.cli.terminal import user_name
from agentv.engine.labels.pair_reviews import open_pairs
from agentv.engine.labels.reviews import DEFAULT_GOLDEN_EVERY, ReviewPlan, open_queue
from agentv.engine.running.clock import make_clock
from agentv.loading.files.places import find_home
from agentv.reports.judge import preference_text
from agentv.reports.text.amounts import count_text
from agentv.reports.text.printable import one_line
from agentv.scoring.judges.draws import ALL
from agentv.storage.run.find import find_run
from agentv.storage.run.stored import StoredRun, open_run
from agentv.types.errors import ConfigError
from agentv.types.records.label import Label
from agentv.types.records.review import ReviewQueue, Stratify
from agentv.view.access import Access
from agentv.view.address import path_to
from agentv.view.blind import blind_work
from agentv.view.library import Library
from agentv.view.reviews import Reviews, ReviewSession
from agentv.view.server import ViewServer

_STORED_LABELS = "labels"
_NOBODY = "reviewer"
_MAX_NAME_CHARS = 60


class ReviewOptions(Struct, frozen=True, kw_only=True):
    """The options of `agentv review` that describe the queue."""

    n: int | None = None
    stratify: Stratify | None = None
    strata: tuple[tuple[str, int], ...] = ()
    reviewers: tuple[str, ...] = ()
    overlap: float | None = None
    golden: str | None = None
    golden_every: int | None = None
    criterion: str | None = None
    name: str | None = None
    pairs: str | None = None
    seed: int | None = None
    no_blind: bool = False


def review(reference: str, options: ReviewOptions, *, port: int, is_opened: bool) -> int:
    """Serve the queue of `options` for a run until Ctrl-C; return the exit code."""
    home = find_home(Path.cwd())
    stored = open_run(find_run(home, reference))
    other = None if options.pairs is None else open_run(find_run(home, options.pairs))
    if options.no_blind:
        _check_no_blind_work(home, stored, options.reviewers or (user_name() or _NOBODY,))
    queue = _open_queue(stored, other, options)
    if queue.compared_with is not None and other is None:
        other = open_run(find_run(home, queue.compared_with))
    reviewers = options.reviewers or queue.reviewers
    session = ReviewSession(stored, queue, other=other)
    library = Library(home, folders=[stored.folder])
    server = ViewServer(library, Access.create(reviewers=reviewers), port=port, reviews=Reviews([session]))

    def announce() -> str:
        links = {name: server.link(path_to("q", queue.name, "next"), reviewer=name) for name in reviewers}
        progress = server.link(path_to("q", queue.name))
        click.echo(_head(session, reviewers))
        width = max(map(len, links))
        for name, link in links.items():
            click.echo(f"  {one_line(name):<{width}}  {link}")
        click.echo(f"Progress, for you alone: {progress}\nCtrl-C ends the review; the same command goes on with it.")
        if len(reviewers) == 1:
            return server.link_once(path_to("q", queue.name, "next"), reviewer=reviewers[0])
        return server.link_once(path_to("q", queue.name))

    code = asyncio.run(serve(server, announce, is_opened=is_opened))
    click.echo(f"\n{progress_text(session)}")
    return code


def _check_no_blind_work(home: Path, stored: StoredRun, reviewers: Sequence[str]) -> None:
    """Raise ConfigError for a reviewer who would see what another queue of the run hides."""
    reviews = Reviews()
    for name in reviewers:
        for work in blind_work(reviews, home, name):
            if work.session.queue.run_id == stored.run_id:
                raise ConfigError(
                    f"--no-blind shows judge and target, but {one_line(name)} still has to label {work} blind; finish "
                    "that review first, or name other reviewers"
                )


def _open_queue(stored: StoredRun, other: StoredRun | None, options: ReviewOptions) -> ReviewQueue:
    for name in options.reviewers:
        if not name.strip() or len(name) > _MAX_NAME_CHARS or not name.isprintable():
            raise ConfigError(f"--reviewer {name!r} must have 1 to {_MAX_NAME_CHARS} printable characters")
    doubled = next((each for each in options.reviewers if options.reviewers.count(each) > 1), None)
    if doubled is not None:
        raise ConfigError(f"--reviewer {doubled!r} is given twice")
    plan = ReviewPlan(
        name=options.name,
        criterion=options.criterion,
        n=options.n,
        stratify=options.stratify,
        allocation=dict(options.strata) or None,
        reviewers=options.reviewers,
        overlap=options.overlap,
        golden_every=options.golden_every or (DEFAULT_GOLDEN_EVERY if options.golden else None),
        seed=options.seed,
        blind=False if options.no_blind else None,
    )
    if other is not None:
        if options.criterion is not None:
            raise ConfigError("--pairs compares whole answers; omit --criterion")
        return open_pairs(stored, other, plan, now=make_clock()(), reviewer=user_name() or _NOBODY)
    golden = _golden_labels(stored, options.golden)
    return open_queue(stored, plan, now=make_clock()(), reviewer=user_name() or _NOBODY, golden=golden)


def _golden_labels(stored: StoredRun, source: str | None) -> Sequence[Label] | None:
    """Return the labels in a file; None for those of the run, which decides itself which are known."""
    return (
        None
        if source is None or source == _STORED_LABELS
        else read_labels(stored, source, annotator=user_name() or _NOBODY)
    )


def _head(session: ReviewSession, reviewers: Sequence[str]) -> str:
    queue = session.queue
    answers = count_text(sum(item.golden is None for item in queue.items), "answer")
    names = {ALL: ""}
    strata = ", ".join(
        f"{names.get(each.name, each.name)} {each.n:,} of {each.size:,}".strip() for each in queue.strata
    )
    left = sum(len(session.labels().waiting(name)) for name in reviewers)
    return f"Review {queue.name!r} of run {queue.run_id}: {answers} ({one_line(strata)}), {left:,} left to label"


def progress_text(session: ReviewSession) -> str:
    """Return how far each reviewer is, what they disagree on, and how to see the corrected rate."""
    labels, run = session.labels(), shlex.quote(session.stored.run_id)
    lines = [
        f"{one_line(each.reviewer)}: {each.labelled:,} labelled, {each.skipped:,} skipped, {each.left:,} left"
        for each in labels.progress()
    ]
    disputed = labels.conflicts()
    if disputed:
        lines.append(f"Reviewers disagree on {count_text(len(disputed), 'answer')}; resolve them on the same pages.")
    if session.queue.compared_with is not None:
        lines.append(preference_text(labels))
    elif any(each.labelled for each in labels.progress()):
        lines.append(f"Corrected pass rate: agentv show {run}")
    if len(session.queue.reviewers) > 1:
        lines.append(f"Agreement: agentv label agreement {run}")
    return "\n".join(lines)

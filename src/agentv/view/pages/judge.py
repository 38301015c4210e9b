"""A judge measured against people: its calibrations, and its report card in a run with labels."""

from collections.abc import Iterator, Sequence

from agentv.engine.labels.judge_cards import LabelledRun, find_pairings, labelled_answers, make_card
from agentv.reports.document.html import HtmlRenderer
from agentv.reports.judge import JudgeCard, calibration_document, card_document, card_to_json
from agentv.reports.text.markup import Html, element
from agentv.storage.judgements.calibrations import calibration_to_record
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject
from agentv.types.summaries import Calibration
from agentv.view.address import path_to
from agentv.view.judges import labelled_runs, saved_calibrations
from agentv.view.library import UnknownRunError
from agentv.view.pages.page import Page, Request
from agentv.view.pages.run import RUNS

_MAX_DISAGREEMENTS = 100


def judge_page(request: Request) -> Page:
    """Return what is known of a judge; `run` chooses the run with labels, else it is the newest one."""
    name, query = request.names["judge"], request.query
    calibrations, problem = saved_calibrations(request.library, name)
    wanted = query.last("run")
    labelled = [request.library.open(wanted)] if wanted is not None else list(labelled_runs(request.library))
    stored, cards = next(((run, cards) for run in labelled if (cards := _cards(run, name))), (None, []))
    if not (calibrations or cards or problem):
        raise UnknownRunError(
            f"no label and no calibration is about a judge {name!r}; import labels with `agentv label RUN --in FILE`, "
            "then run `agentv judge calibrate RUN`"
        )
    others = [run for run in labelled_runs(request.library) if stored is None or run.run_id != stored.run_id]
    parts = [
        element("h1", f"Judge {name}", dir="auto"),
        element("p", problem, class_="notice") if problem else None,
        *_card_parts(stored, cards),
        *_other_runs(name, others),
        *(_calibration(each) for each in calibrations),
    ]
    data: JsonObject = {
        "judge": name,
        "cards": [card_to_json(each) for each in cards],
        "calibrations": [calibration_to_record(each) for each in calibrations],
    }
    return Page(title=f"Judge {name}", parts=parts, data=data, trail=(RUNS,))


def _cards(stored: StoredRun, name: str) -> list[JudgeCard]:
    """Return a card for each criterion of the judge that has labels; none if the run does not have the judge."""
    labelled = LabelledRun.of(stored, stored.labels())
    try:
        pairings = find_pairings(labelled, evaluator=name)
    except ConfigError:
        return []
    return [make_card(labelled, each, labelled_answers(labelled, each), by_tag=True) for each in pairings]


def _card_parts(stored: StoredRun | None, cards: Sequence[JudgeCard]) -> Iterator[Html]:
    if stored is None:
        return
    link = element("a", stored.run.name or stored.run_id, href=path_to("r", stored.run_id))
    yield element("p", "Compared with the labels of run ", link, ".")
    for card in cards:
        document = card_document(card, max_findings=_MAX_DISAGREEMENTS)
        yield element("article", *HtmlRenderer(3).document(document))


def _other_runs(name: str, runs: Sequence[StoredRun]) -> Iterator[Html]:
    if runs:
        items = (
            element("li", element("a", run.run.name or run.run_id, href=f"{path_to('judge', name)}?run={run.run_id}"))
            for run in runs
        )
        heading = element("h2", "Other runs with labels")
        yield element("nav", heading, element("ul", *items, class_="choices"), aria_label="Other runs with labels")


def _calibration(calibration: Calibration) -> Html:
    return element("article", *HtmlRenderer(3).document(calibration_document(calibration)))

"""The list of runs."""

from collections import Counter
from collections.abc import Iterator

from agentv.reports.run.views import rate_text
from agentv.reports.text.markup import Html, element
from agentv.storage.run.find import ListedRun
from agentv.storage.run.recorded_verdict import shown_state
from agentv.types.json_value import JsonObject
from agentv.view.address import path_to
from agentv.view.elements import search_field, state_badge
from agentv.view.pages.page import Page, Request

_MAX_RUNS = 200
_VERDICT_STATES = {"PASS": "pass", "FAIL": "fail", "INCOMPLETE": "error"}


def runs_page(request: Request) -> Page:
    """Return the newest runs, filtered by a text in their names, tags, eval files or ids."""
    wanted = (request.query.last("q") or "").lower()
    known = request.library.runs()
    copies = Counter(run.run_id for run in known)
    runs = [run for run in known if wanted in _searched(run)]
    shown = runs[:_MAX_RUNS]
    more = len(runs) - len(shown)
    body = element("tbody", *(_row(run, is_copied=copies[run.run_id] > 1) for run in shown))
    heads = ("compare", "run", "verdict", "pass rate", "eval files", "started")
    table = element("table", element("thead", element("tr", *(element("th", h, scope="col") for h in heads))), body)
    region = element("div", table, class_="scroll list", tabindex="0", role="region", aria_label="Runs")
    button = element("button", "Compare two marked runs") if len(shown) > 1 else None
    parts = [
        element("h1", "Runs"),
        search_field("/", request.query, label="Search runs"),
        element("form", button, region, action="/compare", class_="runs")
        if shown
        else element("p", *_nothing(request, wanted), class_="notice"),
        element("p", f"and {more:,} older runs; search for them by name, tag or eval file") if more else None,
    ]
    return Page(
        title="Runs",
        parts=parts,
        data={"runs": [_to_json(run) for run in runs]},
        is_live=any(run.state == "running" for run in runs),
    )


def _nothing(request: Request, wanted: str) -> Iterator[Html | str]:
    if wanted:
        yield "No run matches. "
        yield element("a", "Show all runs", href="/")
    else:
        yield f"No runs in {request.library.home}; start one with "
        yield element("code", "agentv run")


def _searched(run: ListedRun) -> str:
    record = run.run
    texts = (run.run_id,) if record is None else (run.run_id, record.name or "", *record.tags, *record.suites)
    return "\n".join(texts).lower()


def _row(run: ListedRun, *, is_copied: bool) -> Html:
    record, state = run.run, shown_state(run)
    name = run.run_id if record is None or not record.name else record.name
    tags = () if record is None else record.tags
    # Of several folders with one id, only that with its name has pages of its own.
    is_copy = is_copied and run.folder.name != run.run_id
    other = "" if run.folder.name == run.run_id else f"folder {run.folder.name}"
    ids = " · ".join(filter(None, ("" if name == run.run_id else run.run_id, other)))
    head = element(
        "th",
        element("a", name, href=path_to("r", run.run_id)) if run.problem is None and not is_copy else name,
        *(element("span", tag, class_="chip") for tag in tags),
        element("small", ids) if ids else None,
        scope="row",
        dir="auto",
    )
    problem = f"a copy; to see it: agentv view {run.folder}" if is_copy else run.problem
    if problem is not None:
        return element("tr", element("td"), head, element("td", problem, colspan="4", class_="wide"))
    mark = element("input", type="checkbox", name="run", value=run.run_id, aria_label=f"compare {name}")
    return element(
        "tr",
        element("td", mark),
        head,
        element("td", state_badge(_VERDICT_STATES.get(state, "skipped"), state)),
        element("td", rate_text(run.counts)),
        element("td", ", ".join(() if record is None else record.suites), class_="wide", dir="auto"),
        element("td", "" if record is None else f"{record.created_at:%Y-%m-%d %H:%M} UTC"),
    )


def _to_json(run: ListedRun) -> JsonObject:
    record = run.run
    return {
        "run_id": run.run_id,
        "name": None if record is None else record.name,
        "tags": [] if record is None else list(record.tags),
        "suites": [] if record is None else list(record.suites),
        "state": run.state,
        "shown": shown_state(run),
        "counts": dict(run.counts),
        "problem": run.problem,
    }

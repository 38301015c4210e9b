"""Pages of a run that is going on follow it to its end, where their numbers are those of `agentv show`."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Semaphore
from typing import TYPE_CHECKING

import pytest
from msgspec import Struct
from tests.support.browser import OpenTab, needs_driven_browser
from tests.support.viewed_runs import ViewedRuns
from tests.support.waiting import until

from agentv import EvalCase, EvaluatorConfig, ProviderRequest, evaluate
from agentv.storage.run.find import runs_folder

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [needs_driven_browser, pytest.mark.slow]

CASES = 300
WAIT_S = 30.0
POLL_MS = 2_000


class GatedRun(Struct):
    """A run that answers as many cases as have been released."""

    run_id: str
    answers: Semaphore

    def release(self, cases: int) -> None:
        self.answers.release(cases)


@contextmanager
def gated_run(home: Path) -> Iterator[GatedRun]:
    """Start a run whose target waits; it ends with the block."""
    answers = Semaphore(0)

    def answer(request: ProviderRequest) -> str:
        assert answers.acquire(timeout=WAIT_S)
        return "4" if int(request.question.split()[1]) % 3 else "5"

    def started() -> list[Path]:
        return [each.parent for each in runs_folder(home).glob("*/run.json") if each.parent not in known]

    known = set(runs_folder(home).iterdir())
    cases = [EvalCase(f"case-{n}", f"Case {n} ?") for n in range(CASES)]
    four = EvaluatorConfig("four", "contains", {"value": "4"})
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(evaluate, cases, task=answer, evaluators=[four], folder=home, name="live", workers=1)
        assert until(lambda: running.done() or started())
        (folder,) = started()
        try:
            yield GatedRun(folder.name, answers)
        finally:
            answers.release(CASES)
            running.result(WAIT_S)


def count_of(page: "Page") -> int:
    return int(page.locator("#count").inner_text().rpartition(" of ")[2].split()[0].replace(",", ""))


def test_pages_follow_a_run_to_its_end(open_tab: OpenTab, runs: ViewedRuns) -> None:
    with gated_run(runs.home) as run:
        paths = ("/", f"/r/{run.run_id}", f"/r/{run.run_id}/rows?state=pass", f"/r/{run.run_id}/rows?state=fail")
        listed, verdict, passed, failed = pages = [open_tab().open(path) for path in paths]
        for page in pages:
            assert page.locator("#live").inner_text().startswith("running")
            page.evaluate("window.isSameDocument = true")
        failed.get_by_role("searchbox").fill("typed meanwhile")
        run.release(CASES // 2)
        passed.wait_for_function("() => document.getElementById('count').textContent.endsWith('of 100 results')")
        failed.wait_for_function("() => document.getElementById('count').textContent.endsWith('of 50 results')")
        verdict.get_by_role("heading", name="100 of 150 judged results passed").wait_for()
        run.release(CASES)
        for page in pages:
            page.wait_for_function("() => !('live' in document.getElementById('content').dataset)")
            assert page.locator("#live").count() == 0
            assert page.evaluate("window.isSameDocument") is True
    assert "66.7 % of 300" in listed.get_by_role("row", name=run.run_id).inner_text()
    assert (count_of(passed), count_of(failed)) == (200, 100)
    assert "300 results of answer: 200 pass, 100 fail" in agentv_show(runs.home, run.run_id)
    assert "results 300 (200 pass, 100 fail)" in verdict.inner_text("main").replace("\n", " ")
    assert verdict.inner_text("#announced").startswith("The run has ended. FAIL: 200 of 300 judged results passed")
    assert failed.get_by_role("searchbox").input_value() == "typed meanwhile"


def test_an_unchanged_page_is_asked_for_by_its_tag_until_it_is_paused(open_tab: OpenTab, runs: ViewedRuns) -> None:
    with gated_run(runs.home) as run:
        page = open_tab().page
        page.clock.install()
        page.goto(f"/r/{run.run_id}/rows")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        for status in (200, 304, 304):
            with page.expect_response("**/rows") as response:
                page.clock.run_for(POLL_MS)
            assert response.value.status == status
        page.get_by_role("button", name="Pause").click()
        asked.clear()
        page.clock.run_for(10 * POLL_MS)
        assert asked == []
        with page.expect_response("**/rows"):
            page.get_by_role("button", name="Follow").click()


def test_a_page_says_that_the_viewer_has_ended(open_tab: OpenTab, runs: ViewedRuns) -> None:
    with gated_run(runs.home) as run:
        page = open_tab().page
        page.clock.install()
        page.goto(f"/r/{run.run_id}")
        page.route("**/r/*", lambda route: route.abort())
        page.clock.run_for(POLL_MS)
        page.get_by_text("no connection to agentv view; trying again").wait_for()
        page.unroute("**/r/*")
        page.clock.run_for(POLL_MS)
        page.locator("#live").get_by_text("running", exact=True).wait_for()


def agentv_show(home: Path, run_id: str) -> str:
    command = [sys.executable, "-m", "agentv", "show", run_id]
    done = subprocess.run(command, cwd=home.parent, capture_output=True, text=True, timeout=60, check=False)
    return " ".join(done.stdout.split())

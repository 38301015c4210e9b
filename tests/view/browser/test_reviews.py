"""A reviewer labels answers in a real browser, which says by itself where a form comes from."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.browser import LOOKS, Tab, needs_driven_browser, violations
from tests.support.reviewed import serving_review, store_run
from tests.support.viewer import Viewer

from agentv.engine.labels.reviews import ReviewPlan
from agentv.view.reviews import ReviewSession

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [needs_driven_browser, pytest.mark.slow]

WAIT_MS = 10_000
QUEUE = "/q/first/next"


@pytest.fixture
def review(tmp_path: Path) -> Iterator[tuple[Viewer, ReviewSession]]:
    run = store_run(tmp_path / ".agentv", cases=6)
    with serving_review(run, ReviewPlan(name="first", criterion="overall", reviewers=("ada",), n=6, seed=1)) as served:
        yield served


@pytest.mark.parametrize("has_scripts", [True, False])
def test_a_form_stores_a_label_and_leads_to_the_next_answer(
    browser: "Browser", review: tuple[Viewer, ReviewSession], *, has_scripts: bool
) -> None:
    viewer, session = review
    tab = Tab(browser, viewer, reviewer="ada", java_script_enabled=has_scripts)
    page = tab.open(QUEUE)
    page.set_default_timeout(WAIT_MS)
    page.get_by_role("radio", name="Fail").check()
    page.get_by_role("button", name="Send").click()
    page.get_by_role("heading", name="2 of 6").wait_for()
    assert [label.verdict for label in session.labels().labels()] == ["fail"]
    tab.close()


def test_the_pages_of_a_review_have_no_accessibility_finding(
    browser: "Browser", review: tuple[Viewer, ReviewSession]
) -> None:
    viewer, _ = review
    for reviewer, path in (("ada", QUEUE), ("ada", f"{QUEUE}?expected=1"), ("", "/q/first")):
        tab = Tab(browser, viewer, reviewer=reviewer)
        page = tab.open(path)
        assert page.locator(".notice").count() == 0
        tab.unfold()
        for look in LOOKS:
            tab.look(look)
            assert (path, look, violations(page)) == (path, look, [])
        tab.close()

"""A whole review in a browser by keyboard alone: with single letters, and with letters switched off."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.browser import Tab, needs_driven_browser
from tests.support.reviewed import serving_review, store_run
from tests.view.browser.test_keys import press, tab_to

from agentv.engine.labels.reviews import ReviewPlan
from agentv.storage.run.stored import StoredRun
from agentv.types.records.label import OVERALL

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [needs_driven_browser, pytest.mark.slow]

ANSWERS = 6


@pytest.fixture
def run(tmp_path: Path) -> StoredRun:
    return store_run(tmp_path / ".agentv", cases=ANSWERS)


@pytest.fixture
def tab(browser: "Browser", run: StoredRun) -> Iterator[Tab]:
    plan = ReviewPlan(n=ANSWERS, criterion=OVERALL, reviewers=("ada",))
    with serving_review(run, plan) as (viewer, _):
        tab = Tab(browser, viewer)
        tab.page.goto(viewer.server.link("/q/overall/next", reviewer="ada"))
        yield tab
        tab.close()
        assert (tab.foreign, tab.errors) == ([], [])


def answer_on(page: "Page") -> str:
    text: str = page.locator("section", has=page.get_by_role("heading", name="Answer", exact=True)).inner_text()
    return text


def wait_for(page: "Page", position: int) -> None:
    page.get_by_role("heading", name=f"{position} of {ANSWERS}").wait_for()


def verdicts(run: StoredRun) -> list[str | None]:
    return [label.verdict for label in run.labels()]


def test_letters_label_every_answer(tab: Tab, run: StoredRun) -> None:
    page = tab.page
    for position in range(1, ANSWERS + 1):
        wait_for(page, position)
        press(page, "p" if "good" in answer_on(page) else "f", "Enter")
    page.get_by_role("heading", name="All answers are reviewed").wait_for()
    assert sorted(map(str, verdicts(run))) == ["fail"] * 2 + ["pass"] * 4


def test_a_note_a_category_an_undo_and_a_skip_need_no_mouse(tab: Tab, run: StoredRun) -> None:
    page = tab.page
    press(page, "f", "m")
    page.keyboard.type("pass the salt")
    press(page, "Escape", "t")
    page.keyboard.type("salty")
    press(page, "Enter")
    wait_for(page, 2)
    press(page, "z")
    wait_for(page, 1)
    press(page, "u", "Enter")
    wait_for(page, 2)
    press(page, "e")
    page.locator("#expected").wait_for()
    press(page, "s")
    wait_for(page, 3)
    first, second = run.labels()
    assert (first.verdict, first.note, first.category) == ("unsure", "pass the salt", "salty")
    assert second.is_skip


def test_a_review_needs_no_letters(tab: Tab, run: StoredRun) -> None:
    page = tab.page
    page.evaluate("localStorage.setItem('letters', 'off')")
    page.reload()
    press(page, "p", "Enter")
    assert verdicts(run) == []
    for position in range(1, ANSWERS + 1):
        wait_for(page, position)
        page.locator("main").focus()
        for _ in range(20):
            press(page, "Tab")
            if page.evaluate("document.activeElement.name") == "verdict":
                break
        press(page, "Space")
        tab_to(page, "Send Enter")
        press(page, "Enter")
    page.get_by_role("heading", name="All answers are reviewed").wait_for()
    assert verdicts(run) == ["pass"] * ANSWERS


def test_a_label_that_is_not_sent_stays_in_the_form(tab: Tab, run: StoredRun) -> None:
    page = tab.page
    page.route("**/q/**", lambda route: route.abort() if route.request.method == "POST" else route.continue_())
    press(page, "f", "m")
    page.keyboard.type("too long")
    press(page, "Escape", "Enter")
    page.get_by_role("alert").get_by_text("Not sent").wait_for()
    assert page.get_by_role("textbox", name="Note").input_value() == "too long"
    assert verdicts(run) == []
    page.unroute("**/q/**")
    press(page, "Enter")
    wait_for(page, 2)
    assert verdicts(run) == ["fail"]
    assert page.get_by_role("textbox", name="Note").input_value() == ""
    assert page.get_by_role("radio", name="Fail").is_checked() is False


def test_a_label_that_is_refused_stays_in_the_form_of_a_second_tab(tab: Tab, run: StoredRun) -> None:
    first, second = tab.page, tab.page.context.new_page()
    second.goto(first.url)
    press(first, "p", "Enter")
    wait_for(first, 2)
    press(second, "f", "m")
    second.keyboard.type("too long")
    press(second, "Escape", "Enter")
    second.get_by_role("alert").get_by_text("labelled in another tab").wait_for()
    assert second.get_by_role("textbox", name="Note").input_value() == "too long"
    assert verdicts(run) == ["pass"]
    second.get_by_role("link", name="Correct the stored label").click()
    second.locator("h1").get_by_text("correct your label").wait_for()
    assert second.get_by_role("radio", name="Fail").is_checked()
    assert second.get_by_role("textbox", name="Note").input_value() == "too long"
    second.locator("main").focus()
    press(second, "Enter")
    wait_for(second, 2)
    assert [label.verdict for label in run.all_labels()] == ["pass", "fail"]


def test_what_is_typed_about_an_answer_is_not_taken_to_another(tab: Tab, run: StoredRun) -> None:
    page = tab.page
    press(page, "p", "Enter")
    wait_for(page, 2)
    press(page, "f", "m")
    page.keyboard.type("about the second")
    press(page, "Escape", "e")
    page.locator("#expected").wait_for()
    assert page.get_by_role("textbox", name="Note").input_value() == "about the second"
    press(page, "z")
    wait_for(page, 1)
    assert page.get_by_role("textbox", name="Note").input_value() == ""
    assert page.get_by_role("radio", name="Pass").is_checked()
    page.go_back()
    wait_for(page, 2)
    assert page.get_by_role("radio", name="Pass").is_checked() is False
    assert [label.note for label in run.labels()] == [None]

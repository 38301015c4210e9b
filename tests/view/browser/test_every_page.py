"""Every page is accessible in every look, is readable without scripts, and runs nothing that others wrote."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from tests.support.browser import LOOKS, Tab, needs_driven_browser, violations
from tests.support.hostile_texts import RUNNING
from tests.support.viewed_runs import PATHS, ViewedRuns
from tests.support.viewer import Viewer, serving_view

from agentv import EvalCase, EvaluatorConfig, evaluate

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [needs_driven_browser, pytest.mark.slow]

OWNED = "document.documentElement.dataset.owned"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture
def tab(shared_tab: Tab) -> Iterator[Tab]:
    """Return a window in which no script may fail and from which no request may leave the viewer."""
    yield shared_tab
    foreign, errors = shared_tab.foreign.copy(), shared_tab.errors.copy()
    shared_tab.foreign.clear()
    shared_tab.errors.clear()
    shared_tab.look("light")
    assert (foreign, errors) == ([], [])


@pytest.mark.parametrize("template", PATHS)
def test_a_page_has_no_accessibility_finding_in_any_look(tab: Tab, runs: ViewedRuns, template: str) -> None:
    page = tab.open(runs.path(template))
    tab.unfold()
    for look in LOOKS:
        tab.look(look)
        assert (look, violations(page)) == (look, [])
        assert (look, page.evaluate(OVERFLOW)) == (look, 0)


def test_the_rules_find_what_is_wrong(tab: Tab) -> None:
    tab.page.goto("about:blank")
    tab.page.set_content("<p style='color: #ccc'>pale</p><img src='data:,'>")
    found = "\n".join(violations(tab.page))
    assert "color-contrast" in found
    assert "image-alt" in found


def test_the_dialog_of_keys_has_no_accessibility_finding(tab: Tab, runs: ViewedRuns) -> None:
    page = tab.open(f"/r/{runs.run}/rows?state=error")
    page.keyboard.press("?")
    assert page.get_by_role("dialog", name="Keys").is_visible()
    for look in ("dark", "narrow"):
        tab.look(look)
        assert violations(page) == []


@pytest.mark.parametrize("template", PATHS)
def test_a_page_is_readable_without_scripts(tab: Tab, plain_tab: Tab, runs: ViewedRuns, template: str) -> None:
    path = runs.path(template)
    assert plain_tab.open(path).inner_text("main") == tab.open(path).inner_text("main")
    # A button that only a script makes work is not shown.
    assert plain_tab.page.locator("button[type=button]:visible").count() == 0


def test_a_list_is_searched_filtered_and_paged_without_scripts(plain_tab: Tab, runs: ViewedRuns) -> None:
    page = plain_tab.open(f"/r/{runs.run}/rows")
    page.get_by_role("link", name="next").click()
    assert page.get_by_role("link", name="previous").count() == 1
    page.get_by_text("Filters", exact=True).click()
    page.locator("#filters").get_by_role("link", name="odd").click()
    page.get_by_role("searchbox").fill("know")
    page.get_by_role("button", name="Search").click()
    assert page.locator("#count").inner_text().endswith("of 18 results")


@pytest.mark.parametrize(
    "template",
    [
        *(path for path in PATHS if "{hostile}" in path),
        "/",
        "/?q={text}",
        "/{text}",
        "/r/{text}",
        "/r/{hostile}/rows?q={text}&tag={text}&state={text}&sort={text}",
        "/r/{hostile}/rows?tag={text}&q={text}&suite={text}",
        "/r/{hostile}/case/{text}",
    ],
)
def test_hostile_texts_do_not_run(tab: Tab, runs: ViewedRuns, template: str) -> None:
    for text in RUNNING if "{text}" in template else ("",):
        page = tab.open(runs.path(template.replace("{text}", quote(text, safe=""))))
        tab.unfold()
        assert page.evaluate(OWNED) is None
        assert page.locator("main").inner_text()


def test_hostile_texts_do_not_run_when_a_list_is_replaced(tab: Tab, runs: ViewedRuns) -> None:
    page = tab.open(f"/r/{runs.hostile}/rows")
    for text in RUNNING:
        page.get_by_role("searchbox").fill(text)
        page.get_by_role("button", name="Search").click()
        page.get_by_text(f"contains “{text}”").wait_for()
        assert page.evaluate(OWNED) is None


def test_the_same_texts_run_on_a_page_that_does_not_escape(tab: Tab) -> None:
    for text in RUNNING:
        tab.page.goto("about:blank")
        tab.page.set_content(f"<p>{text}</p>")
        tab.page.wait_for_function(f"() => {OWNED} === 'yes'")
    tab.errors.clear()
    tab.foreign.clear()


def test_a_request_to_another_origin_is_noticed(tab: Tab) -> None:
    tab.page.goto("about:blank")
    tab.page.set_content("<img src='http://127.0.0.1:9/picture.png'>")
    assert tab.foreign == ["http://127.0.0.1:9/picture.png"]
    tab.foreign.clear()


def test_the_links_of_every_page_lead_to_the_viewer(tab: Tab, runs: ViewedRuns, viewer: Viewer) -> None:
    for template in PATHS:
        page = tab.open(runs.path(template))
        addresses = page.evaluate(
            "[...document.querySelectorAll('a[href], form[action]')].map((e) => e.href || e.action)"
        )
        assert [each for each in addresses if not each.startswith(f"{viewer.server.url}/")] == []


def test_a_long_word_does_not_widen_a_page(browser: "Browser", tmp_path: Path) -> None:
    answers = iter(["yes", "no"])
    run = evaluate(
        [EvalCase("flaky" * 100, "Is it?")],
        task=lambda _: next(answers),
        evaluators=[EvaluatorConfig("yes", "contains", {"value": "yes"})],
        folder=tmp_path,
        trials=2,
        workers=1,
    ).run_id
    with serving_view(tmp_path) as viewer:
        tab = Tab(browser, viewer)
        tab.look("narrow")
        for path in (f"/r/{run}", f"/r/{run}/rows", f"/r/{run}/grid", f"/r/{run}/row/0"):
            assert (path, tab.open(path).evaluate(OVERFLOW)) == (path, 0)
        tab.close()


def test_the_bar_of_a_run_that_is_going_on_fits_a_phone(tab: Tab, runs: ViewedRuns) -> None:
    page = tab.open(f"/r/{runs.run}")
    page.set_viewport_size({"width": 390, "height": 800})
    live = '<p id="live"><span>running</span> <button type="button">Pause</button></p>'
    page.evaluate("(live) => document.querySelector('.bar > button').insertAdjacentHTML('beforebegin', live)", live)
    assert page.evaluate("document.querySelector('.bar nav').offsetHeight") < 90

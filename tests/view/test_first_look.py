"""While a long comparison is counted, its changed cases are shown: those that it will show, in the same order."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.served import serving_in_thread
from tests.support.viewer import Client
from tests.view.projects import Project

from agentv.storage.index.file import pages_file
from agentv.storage.index.indexer import Indexer
from agentv.view.access import READER, Access
from agentv.view.address import Query
from agentv.view.library import Library
from agentv.view.pages.compare import compare_first_look, compare_page
from agentv.view.pages.page import Page, Request, page_html
from agentv.view.server import ViewServer

QUESTIONS = tuple(f"question {number}" for number in range(60))
BEFORE = {"*": "yes", **{f"question {number}": "no" for number in range(40, 44)}}
AFTER = {"*": "no", **{f"question {number}": "yes" for number in range(40, 50)}, "question 50": "raise"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = Project(tmp_path_factory.mktemp("looked"), QUESTIONS)
    for small in (BEFORE, AFTER):
        run = project.run({"small": small, "large": {"*": "yes"}})
        Indexer(pages_file(project.home, run), project.home / "runs" / run).run()  # however slow the machine is
    return project.home


@pytest.fixture
def library(home: Path) -> Iterator[Library]:
    opened = Library(home, long_bytes=0)
    yield opened
    opened.close()


def asked(library: Library, query: str = "") -> Request:
    runs = "..".join(sorted(path.name for path in (library.home / "runs").iterdir()))
    pairs = [(key, value) for key, _, value in (part.partition("=") for part in query.split("&"))]
    return Request(library=library, path="/compare", names={"runs": runs}, query=Query.of(pairs))


def listed(page: Page) -> list[str]:
    """Return the cases and the places of the lists that a page shows."""
    html = page_html(page, address="/")
    return re.findall(r'<article.*?</article>|<p id="count".*?</p>|aria-label="Pairs">.*?</div>', html, re.DOTALL)


@pytest.mark.parametrize(
    "query", ["", "only=lost", "only=lost&page=2", "only=won", "target=small&q=QUESTION", "target=x"]
)
def test_the_first_look_shows_what_the_comparison_will_show(home: Path, query: str) -> None:
    library = Library(home, long_bytes=0)
    look = compare_first_look(asked(library, query))
    assert look is not None
    assert "is being computed" in page_html(look, address="/")
    assert listed(look) == listed(compare_page(asked(library, query)))
    library.close()


def test_there_is_no_first_look_once_the_comparison_is_known(library: Library) -> None:
    assert compare_first_look(asked(library)) is not None
    compare_page(asked(library))
    assert compare_first_look(asked(library)) is None


@pytest.mark.parametrize("query", ["only=same", "only=errors", "page=21"])
def test_lists_that_the_index_does_not_have_are_waited_for(library: Library, query: str) -> None:
    assert compare_first_look(asked(library, query)) is None


def test_short_runs_are_compared_at_once(home: Path) -> None:
    library = Library(home)
    assert compare_first_look(asked(library)) is None
    library.close()


def test_a_browser_gets_the_first_look_and_a_program_the_comparison(library: Library) -> None:
    access = Access.create()
    with serving_in_thread(ViewServer(library, access)) as server:
        client = Client(server.port)
        client.get(f"/?token={access.tokens[READER]}")
        path = f"/compare/{asked(library).names['runs']}"
        assert "49 pairs lost, 4 won" in client.get(path).text
        finding = client.get(f"{path}.json").json()["finding"]
        assert finding in client.get(path).text
        assert client.get("/compare/none..latest").status == 404

"""The site made of docs/: no page, heading, fence or table is lost, no link is dead, and no other host is asked.

What GitHub shows is the reference: cmarkgfm is its reader of Markdown. Tests of the HTML need the dependency group
`site`: ./run --group=site pytest tests/test_site.py
"""

import importlib.util
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from difflib import unified_diff
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest
from cmarkgfm.cmark import Options, markdown_to_html_with_extensions  # type: ignore[import-untyped]

ROOT = Path(__file__).parent.parent
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
SHOWN = {*HEADINGS, "p", "li", "ul", "ol", "pre", "code", "table", "td", "th", "a", "strong", "em", "blockquote", "img"}
VOID = {"br", "hr", "img", "input", "link", "meta", "path", "wbr"}
NOT_OF_THE_PAGE = {"headerlink", "filename", "md-code__nav"}
needs_zensical = pytest.mark.skipif(
    importlib.util.find_spec("zensical") is None, reason="needs the dependency group `site`: zensical"
)


def load_build_site() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_site", ROOT / ".ci" / "build_site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


build_site = load_build_site()
PAGES: Mapping[str, str] = build_site.read_pages()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    build_site.build(folder, PAGES)
    return folder


class Shown(HTMLParser):
    """The tags and words of a page's own part, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.is_inside = False
        self.skipped = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        classes = (given.get("class") or "").split()
        if tag == "article":
            self.is_inside = True
        elif self.skipped or NOT_OF_THE_PAGE.intersection(classes):
            self.skipped += tag not in VOID
        elif self.is_inside and tag in SHOWN and not self.adds_nothing(tag, given):
            self.parts.append(f" <{tag}> ")

    def adds_nothing(self, tag: str, given: Mapping[str, str | None]) -> bool:
        return (tag == "code" and self.parts[-1:] == [" <pre> "]) or (tag == "a" and "href" not in given)

    def handle_endtag(self, tag: str) -> None:
        if self.skipped:
            self.skipped -= 1
        elif tag == "article":
            self.is_inside = False

    def handle_data(self, data: str) -> None:
        if self.is_inside and not self.skipped:
            self.parts.append(data)


def shown(html: str) -> list[str]:
    parser = Shown()
    parser.feed(html)
    return "".join(parser.parts).split()


def shown_by_github(text: str) -> list[str]:
    html = markdown_to_html_with_extensions(text, Options.CMARK_OPT_UNSAFE, ["table", "strikethrough"])
    return shown(f"<article>{html}</article>")


def html_of(page: str, site: Path) -> Path:
    place = Path(build_site.place_of(page))
    return site / (place.with_name("index.html") if place.name == "README.md" else place.with_suffix(".html"))


def pages_in(navigation: Mapping[str, object]) -> Iterator[str]:
    for inner in navigation.values():
        if isinstance(inner, dict):
            yield from pages_in(inner)
        else:
            assert isinstance(inner, str)
            yield inner


def test_every_page_is_in_the_navigation_once() -> None:
    assert sorted(pages_in(build_site.make_navigation(PAGES))) == sorted(PAGES)
    assert {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")} <= PAGES.keys()


def test_the_navigation_has_the_groups_of_the_index() -> None:
    navigation = build_site.make_navigation(PAGES)
    assert list(navigation) == ["Home", "Tutorials", "How-to guides", "Reference", "Explanation", "Repository"]
    assert navigation["Explanation"]["Architecture"] == "docs/architecture.md"
    assert navigation["Reference"]["Evaluators"]["Overview"] == "docs/reference/evaluators.md"


def test_a_page_without_a_place_in_the_navigation_is_an_error() -> None:
    with pytest.raises(build_site.SiteError, match=r"^docs/index.md does not list docs/how-to/new.md, and no page"):
        build_site.make_navigation({**PAGES, "docs/how-to/new.md": "# New"})


@needs_zensical
def test_a_folder_with_other_files_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(build_site.SiteError, match="exists and has no earlier build of the site"):
        build_site.build(tmp_path, PAGES)
    assert (tmp_path / "mine.txt").exists()


def test_a_fence_with_a_file_name_gets_a_title() -> None:
    fence = "```yaml evals/a.yaml\n[text](README.md)\n```\n"
    assert build_site.convert("docs/index.md", fence) == fence.replace("evals/a.yaml", 'title="evals/a.yaml"')


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("docs/how-to/ci.md", "compare.md#a-baseline", "compare.md#a-baseline"),
        ("docs/how-to/ci.md", "#part", "#part"),
        ("docs/how-to/ci.md", "https://example.com/a#b", "https://example.com/a#b"),
        ("docs/index.md", "../README.md", "repository/README.md"),
        ("docs/reference/providers/mcp.md", "../../../examples/mcp", "../../repository/examples/mcp/README.md"),
        ("examples/README.md", "quickstart", "quickstart/README.md"),
        ("README.md", "docs/index.md", "../index.md"),
    ],
)
def test_pictures_of_html_lead_to_their_places_in_the_site() -> None:
    html = '<source srcset="docs/images/a.png"><img src="docs/images/b.png" alt="c">'
    assert build_site.convert("README.md", html) == html.replace("docs/images", "../images")


def test_pictures_are_small_and_each_is_shown() -> None:
    pictures = {path: path.stat().st_size for path in (ROOT / "docs" / "images").iterdir()}
    linked = {file for page, text in PAGES.items() for file in build_site.links_of(page, text)}
    assert {path.relative_to(ROOT).as_posix() for path in pictures} <= linked
    assert max(pictures.values()) < 120_000
    assert sum(pictures.values()) < 600_000


def test_links_lead_to_the_places_of_files_in_the_site(page: str, link: str, expected: str) -> None:
    assert build_site.convert(page, f"see [it]({link}).") == f"see [it]({expected})."


@needs_zensical
def test_each_page_of_the_site_has_what_github_shows(site: Path) -> None:
    lost = {}
    for page, text in PAGES.items():
        expected, found = shown_by_github(text), shown(html_of(page, site).read_text("utf-8"))
        if expected != found:
            lost[page] = list(unified_diff(expected, found, n=3, lineterm=""))[:30]
    assert lost == {}


@needs_zensical
def test_every_heading_fence_and_file_name_is_in_the_site(site: Path) -> None:
    counted = Counter[str]()
    for page, text in PAGES.items():
        fences = build_site.FENCE.findall(text)
        rest = build_site.FENCE.sub("", text)
        names = [found[1] for fence in fences if (found := re.match(r"```+\w+ +(\S+)\n", fence))]
        headings, indented = re.findall(r"^#+ ", rest, re.MULTILINE), re.findall(r"\n\n {4}\S", rest)
        html = html_of(page, site).read_text("utf-8")
        words = Counter(shown(html))
        assert sum(words[f"<{heading}>"] for heading in HEADINGS) == len(headings), page
        assert words["<pre>"] == len(fences) + len(indented), page
        assert re.findall(r'<span class="filename">(.*?)</span>', html) == names, page
        counted.update(headings=len(headings), fences=len(fences), names=len(names))
    assert counted["headings"] > 500
    assert counted["fences"] > 300
    assert counted["names"] > 150


@needs_zensical
def test_every_link_of_the_site_leads_to_a_page_and_an_anchor(site: Path) -> None:
    texts = {path: path.read_text("utf-8") for path in site.rglob("*.html") if path.name != "404.html"}
    ids = {path: set(re.findall(r'\bid="?([^" >]+)', text)) for path, text in texts.items()}
    dead = []
    for path, text in texts.items():
        for link in re.findall(r'<(?:a|img|source)\b[^>]*\b(?:href|src|srcset)="([^"]+)"', text):
            file, _, anchor = link.partition("#")
            to = (path.parent / file).resolve() if file else path
            if "://" not in link and not (to.is_file() and (not anchor or anchor in ids[to])):
                dead.append((str(path.relative_to(site)), link))
    assert dead == []
    assert len(texts) == len(PAGES)


@needs_zensical
def test_the_site_loads_nothing_from_another_host(site: Path) -> None:
    pages = "".join(path.read_text("utf-8") for path in site.rglob("*.html"))
    assert re.findall(r'<(?:link|script|img|iframe|source)\b[^>]*(?:src|href)="?((?:https?:)?//[^" >]+)', pages) == []
    styles = "".join(path.read_text("utf-8") for path in site.rglob("*.css"))
    assert re.findall(r"""(?:@import|url\()\s*["']?((?:https?:)?//[^"')]+)""", styles) == []
    assert "<script" in pages
    assert "url(" in styles


@needs_zensical
def test_a_linked_file_outside_of_docs_is_in_the_site(tmp_path: Path) -> None:
    build_site.build(tmp_path / "site", {"docs/index.md": "# A\n\n[the script](../run)\n"})
    assert 'href="repository/run"' in (tmp_path / "site" / "index.html").read_text("utf-8")
    assert (tmp_path / "site" / "repository" / "run").read_bytes() == (ROOT / "run").read_bytes()


@needs_zensical
def test_a_dead_link_stops_the_build(tmp_path: Path) -> None:
    pages = {"docs/index.md": "# A\n\n[gone](gone.md)\n\n[part](#gone)\n"}
    with pytest.raises(build_site.SiteError) as raised:
        build_site.build(tmp_path / "site", pages)
    assert "index.md:3:8" in str(raised.value)
    assert "page does not exist" in str(raised.value)
    assert "anchor does not exist" in str(raised.value)
    assert "Traceback" not in str(raised.value)
    assert not (tmp_path / "site").exists()

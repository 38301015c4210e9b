"""Build the site of docs/: `./run --group=site python .ci/build_site.py [FOLDER]`, by default in build/site.

Zensical builds a copy of docs/ with these differences:

- A fence with a file name after its language has the file name as its title.
- What a page links to outside of docs/ is in the site, too, below repository/: Markdown as pages, the rest as files.
- The navigation is that of docs/index.md. A page that is not listed there belongs to the listed page that links to all
  such pages of its folder, as docs/reference/evaluators.md does to those of docs/reference/evaluators/.

The build fails if a page has no place in the navigation, or if a link or an anchor leads nowhere.
"""

import json
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "zensical.toml"
STYLES = Path(__file__).with_name("site.css")

HOME = "docs/index.md"
FENCE = re.compile(r"(^```+.*?^```+$)", re.MULTILINE | re.DOTALL)
NAMED_FENCE = re.compile(r"^(```+\w+) +(\S+)$", re.MULTILINE)
LINK = re.compile(r"""(?:(?<=\]\()|(?<=\bsrc=")|(?<=\bsrcset="))([^()#\s"]+)""")
ROW = re.compile(r"^\|.*", re.MULTILINE)
CODE = re.compile(r"`[^`]+`")
LISTED = re.compile(r"^## (.+)$|^(\w.*):$|^- \[([^]]+)\]\(([^)#]+\.md)\)", re.MULTILINE)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
HEADING = re.compile(r"^# (.+)$", re.MULTILINE)

Navigation = dict[str, Any]
"""Titles in order, each with its page or with the titles below it."""


class SiteError(Exception):
    """The site cannot be built."""


def links_of(page: str, text: str) -> list[str]:
    """Return the files to which a page links, in order and relative to the repository."""
    links = [link for link in LINK.findall(FENCE.sub("", text)) if "://" not in link]
    return list(dict.fromkeys(file_of(page, link) for link in links))


def file_of(page: str, link: str) -> str:
    """Return the file to which a link of a page leads; the README of a folder outside of docs/."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    return f"{path}/README.md" if (ROOT / path).is_dir() else path


def read_pages() -> dict[str, str]:
    """Return the text of each page, by its path in the repository: those of docs/, and those they lead to."""
    waiting = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
    pages: dict[str, str] = {}
    while waiting:
        page = waiting.pop(0)
        if page not in pages and (ROOT / page).is_file():
            pages[page] = (ROOT / page).read_text("utf-8")
            waiting += [linked for linked in links_of(page, pages[page]) if linked.endswith(".md")]
    return pages


def place_of(file: str) -> str:
    """Return where a file of the repository is in the site."""
    return file.removeprefix("docs/") if file.startswith("docs/") else f"repository/{file}"


def convert(page: str, text: str) -> str:
    """Return a page as Zensical reads it: with titles of fences, and links to the places of files in the site."""
    parts = FENCE.split(text)  # text and fences in turn
    parts[::2] = [ROW.sub(bare_pipes, relink(page, part)) for part in parts[::2]]
    parts[1::2] = [NAMED_FENCE.sub(r'\1 title="\2"', part) for part in parts[1::2]]
    return "".join(parts)


def bare_pipes(row: re.Match[str]) -> str:
    """Return a row of a table without the backslash of each `|` in code, which Zensical would show."""
    return CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0])


def relink(page: str, text: str) -> str:
    """Return a text whose relative links fit the places of the page and of the linked files in the site."""
    folder = posixpath.dirname(place_of(page))

    def link(found: re.Match[str]) -> str:
        is_local = "://" not in found[0]
        return posixpath.relpath(place_of(file_of(page, found[0])), folder) if is_local else found[0]

    return LINK.sub(link, text)


def make_navigation(pages: Mapping[str, str]) -> Navigation:
    """Return the navigation: the sections of docs/index.md, then the pages outside of docs/."""
    listed = list(listed_pages(pages[HOME]))
    below = pages_below([page for *_, page in listed], pages)
    navigation: Navigation = {"Home": HOME}
    for section, group, label, page in listed:
        into = navigation.setdefault(section, {})
        into = into.setdefault(group, {}) if group else into
        children = {title_of(pages[child]): child for child in below.get(page, ())}
        into[label] = {"Overview": page, **children} if children else page
    outside = [page for page in pages if not page.startswith("docs/")]
    outside.sort(key=lambda page: (page != "README.md", page.count("/"), page))
    return {**navigation, "Repository": {title_of(pages[page]): page for page in outside}}


def listed_pages(index: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield section, group within it (or ""), label and page of each list item of docs/index.md."""
    section = group = ""
    for heading, paragraph, label, page in LISTED.findall(index):
        if heading:
            section, group = heading, ""
        elif paragraph:
            group = paragraph
        else:
            yield section, group, label, file_of(HOME, page)


def pages_below(listed: Sequence[str], pages: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the pages that belong to a listed page, by that page and in the order of its links."""
    rest = {page for page in pages if page.startswith("docs/")} - {HOME, *listed}
    below: dict[str, list[str]] = {}
    for folder in sorted({posixpath.dirname(page) for page in rest}):
        inside = {page for page in rest if posixpath.dirname(page) == folder}
        links = {page: links_of(page, pages[page]) for page in listed}
        parents = [page for page in listed if inside <= set(links[page])]
        if not parents:
            raise SiteError(f"{HOME} does not list {', '.join(sorted(inside))}, and no page that it lists links to all")
        below[parents[0]] = [page for page in links[parents[0]] if page in inside]
    return below


def title_of(text: str) -> str:
    """Return the title of a page without Markdown."""
    return found[1].replace("`", "") if (found := HEADING.search(FENCE.sub("", text))) else ""


def to_toml(navigation: Navigation) -> str:
    """Return the navigation as zensical.toml has it."""
    items = (
        f"{{ {json.dumps(title)} = {json.dumps(place_of(inner)) if isinstance(inner, str) else to_toml(inner)} }}"
        for title, inner in navigation.items()
    )
    return f"[{', '.join(items)}]"


def write_project(folder: Path, pages: Mapping[str, str]) -> None:
    """Write to a folder what Zensical builds: zensical.toml and docs/."""
    nav = f"[project]\nnav = {to_toml(make_navigation(pages))}\n"
    (folder / "zensical.toml").write_text(CONFIG.read_text("utf-8").replace("[project]\n", nav, 1), "utf-8")
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("*.md"))
    shutil.copy(STYLES, folder / "docs")
    for page, text in pages.items():
        path = folder / "docs" / place_of(page)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(convert(page, text), "utf-8")
        copy_linked_files(page, text, folder / "docs")


def copy_linked_files(page: str, text: str, folder: Path) -> None:
    """Copy the files to which a page links outside of docs/, other than pages."""
    for file in links_of(page, text):
        if not file.startswith("docs/") and not file.endswith(".md") and (ROOT / file).is_file():
            path = folder / place_of(file)
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, path)


def build(target: Path, pages: Mapping[str, str]) -> None:
    """Build the site in a folder, which is replaced if it has an earlier build."""
    if find_spec("zensical") is None:
        raise SiteError("Zensical is not installed; call ./run --group=site python .ci/build_site.py")
    if target.exists() and not (target / "search.json").is_file():
        raise SiteError(f"{target} exists and has no earlier build of the site; choose another folder")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_project(folder, pages)
        command = [sys.executable, "-m", "zensical", "build", "--strict"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            problems, _, trace = done.stderr.partition("Traceback (most recent call last):\n")
            raise SiteError(COLOUR.sub("", problems or trace))
        shutil.rmtree(target, ignore_errors=True)
        shutil.move(folder / "site", target)


def main() -> None:
    """Build the site of the repository."""
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site")
    try:
        build(target, read_pages())
    except SiteError as error:
        sys.exit(f"no site was built: {error}")
    print(f"built {target / 'index.html'}")


if __name__ == "__main__":
    main()

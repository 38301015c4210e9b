"""Files attached to messages: search, reading and refusals."""

import hashlib
import os
from pathlib import Path

import pytest

from agentv.loading.files.attached import FileFinder, matches_any
from agentv.loading.files.path_guard import FileProblemError, PathGuard
from agentv.types.cases import DEFAULT_GUIDELINE_PATTERNS


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "repository"
    (root / "evals" / "deep").mkdir(parents=True)
    return root


def finder(root: Path, *, allowed: Path | None = None, cwd: Path | None = None) -> FileFinder:
    base = root / "evals" / "deep"
    guard = PathGuard(root, () if allowed is None else (allowed,))
    return FileFinder(base, root, cwd or root, guard, DEFAULT_GUIDELINE_PATTERNS)


def test_files_are_searched_beside_upward_and_in_the_working_directory(root: Path) -> None:
    places = [root / "work", root, root / "evals", root / "evals" / "deep"]
    (root / "work").mkdir()
    for place in places:
        (place / "a.txt").write_text(place.name)
        assert finder(root, cwd=root / "work").attach("a.txt").text == place.name


def test_a_leading_slash_is_absolute_first_and_then_relative_to_the_roots(root: Path) -> None:
    (root / "a.txt").write_text("in the root")
    assert finder(root).attach("/a.txt").text == "in the root"
    assert finder(root).attach(str(root / "a.txt")).text == "in the root"


def test_a_file_outside_the_root_is_refused_unless_its_folder_is_allowed(root: Path) -> None:
    outside = root.parent / "secret.txt"
    outside.write_text("s")
    (root / "evals" / "deep" / "link.txt").symlink_to(outside)
    for written in ("../../../secret.txt", "link.txt", str(outside)):
        with pytest.raises(FileProblemError, match="leads outside of ") as caught:
            finder(root).attach(written)
        assert caught.value.allowed == f"if that is intended, allow it with --allow-path {root.parent}"
        assert finder(root, allowed=root.parent).attach(written).text == "s"


def test_a_link_inside_the_repository_is_followed(root: Path) -> None:
    (root / "a.txt").write_text("a")
    (root / "evals" / "b.txt").symlink_to(root / "a.txt")
    found = finder(root).attach("b.txt")
    assert (found.path, found.real_path) == ("b.txt", str(root / "a.txt"))


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_only_regular_files_are_read(root: Path, kind: str) -> None:
    path = root / "evals" / "deep" / "odd"
    path.mkdir() if kind == "folder" else os.mkfifo(path)
    with pytest.raises(FileProblemError, match="'odd' is not a regular file"):
        finder(root).attach("odd")


def test_a_loop_of_links_is_a_missing_file(root: Path) -> None:
    (root / "evals" / "deep" / "a").symlink_to("b")
    (root / "evals" / "deep" / "b").symlink_to("a")
    with pytest.raises(FileProblemError, match="does not exist"):
        finder(root).attach("a")


def test_a_missing_file_is_reported_with_places_and_nearest_name(root: Path) -> None:
    (root / "evals" / "deep" / "orders.json").write_text("{}")
    with pytest.raises(FileProblemError) as caught:
        finder(root).attach("./order.json")
    error = caught.value
    assert error.message == "the file './order.json' does not exist"
    assert error.allowed == f"searched in {root}/evals/deep, {root}/evals, {root}"
    assert error.suggestion == "./orders.json"


@pytest.mark.parametrize("written", ["\x00", "a\x00b", "x" * 5_000, "", "\ud800"])
def test_impossible_file_names_are_reported_like_missing_files(root: Path, written: str) -> None:
    with pytest.raises(FileProblemError):
        finder(root).attach(written)


def test_text_is_normalized_but_its_hash_is_of_the_raw_bytes(root: Path) -> None:
    data = b"\xef\xbb\xbfone\r\ntwo\rthree\n"
    (root / "a.txt").write_bytes(data)
    found = finder(root).attach("a.txt")
    assert found.text == "one\ntwo\rthree\n"
    assert (found.size, found.sha256) == (len(data), hashlib.sha256(data).hexdigest())


def test_a_bad_byte_is_reported_with_its_offset(root: Path) -> None:
    (root / "a.txt").write_bytes(b"caf\xe9 au lait")
    with pytest.raises(FileProblemError, match=r"'a\.txt' is not UTF-8: byte 0xe9 at offset 3"):
        finder(root).attach("a.txt")


@pytest.mark.parametrize(
    ("name", "data", "media_type"),
    [
        ("photo.png", b"\x89PNG\r\n", "image/png"),
        ("paper.pdf", b"%PDF-1.7", "application/pdf"),
        ("data", b"a\x00b", "application/octet-stream"),
    ],
)
def test_binary_files_travel_without_text(root: Path, name: str, data: bytes, media_type: str) -> None:
    (root / name).write_bytes(data)
    found = finder(root).attach(name)
    assert (found.text, found.media_type) == (None, media_type)


def test_a_drawing_in_svg_is_text(root: Path) -> None:
    (root / "a.svg").write_text("<svg/>")
    assert finder(root).attach("a.svg").text == "<svg/>"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.instructions.md", True),
        ("evals/deep/b.instructions.md", True),
        (".github/instructions/c.md", True),
        ("instructions/d/e.txt", True),
        ("evals/prompts/f", True),
        ("my-prompts/g.md", False),
        ("evals/instructions.md", False),
        ("evals/h.md", False),
    ],
)
def test_guidelines_match_patterns_relative_to_the_repository_root(root: Path, path: str, expected: bool) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text("x")
    assert finder(root).attach(f"/{path}").is_guideline is expected


def test_a_repository_inside_a_prompts_folder_has_no_guidelines(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "prompts" / "repository"
    (root / "evals" / "deep").mkdir(parents=True)
    (root / "a.txt").write_text("x")
    assert finder(root).attach("a.txt").is_guideline is False


def test_a_file_that_is_named_often_is_read_once(root: Path) -> None:
    (root / "a.txt").write_text("x")
    files = finder(root)
    assert files.attach("a.txt") is files.attach("a.txt")


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.md", "a.md", True),
        ("*.md", "b/a.md", False),
        ("**/*.md", "a.md", True),
        ("**/*.md", "b/c/a.md", True),
        ("b/**", "b/c/a.md", True),
        ("b/**/a.md", "b/a.md", True),
        ("a?.md", "ab.md", True),
        ("a?.md", "a/.md", False),
        ("a?.md", "a.md", False),
        ("./a", "a", True),
        ("**/" * 40 + "x", "a/" * 60 + "b", False),
        ("*a" * 40 + "x", "a" * 120, False),
    ],
)
def test_pattern_matches_whole_paths_without_backtracking(pattern: str, path: str, expected: bool) -> None:
    assert matches_any(path, [pattern]) is expected

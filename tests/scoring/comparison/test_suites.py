"""Suites of two runs are paired by their paths, also if these are relative to different folders."""

import pytest

from agentv.scoring.comparison.suites import pair_suites, renamed_suites, renamed_text


@pytest.mark.parametrize(
    ("before", "after", "paired"),
    [
        (["a.yaml", "b.yaml"], ["a.yaml", "b.yaml"], {"a.yaml": "a.yaml", "b.yaml": "b.yaml"}),
        (["a.yaml", "b.yaml"], ["evals/b.yaml", "evals/a.yaml"], {"a.yaml": "evals/a.yaml", "b.yaml": "evals/b.yaml"}),
        (["evals/a.yaml"], ["a.yaml"], {"evals/a.yaml": "a.yaml"}),
        (["a.yaml"], ["x/a.yaml", "y/a.yaml"], {}),
        (["x/a.yaml", "y/a.yaml"], ["a.yaml"], {}),
        (["a.yaml"], ["a.yaml", "evals/a.yaml"], {"a.yaml": "a.yaml"}),
        (["a.yaml", "evals/a.yaml"], ["evals/a.yaml"], {"evals/a.yaml": "evals/a.yaml"}),
        (["a.yaml"], ["aa.yaml", "evals/ba.yaml"], {}),
        (["x/a.yaml"], ["y/a.yaml"], {}),
    ],
)
def test_a_path_is_paired_with_the_one_it_is_the_end_of(
    before: list[str], after: list[str], paired: dict[str, str]
) -> None:
    assert pair_suites(before, after) == paired
    assert pair_suites(after, before) == {new: old for old, new in paired.items()}


def test_the_paths_that_changed_are_named() -> None:
    renamed = renamed_suites(["a.yaml", "b.yaml", "c.yaml"], ["e/a.yaml", "e/b.yaml", "c.yaml"])
    assert renamed_text(renamed) == "a.yaml is now e/a.yaml, and 1 more"
    assert renamed_text({}) == ""

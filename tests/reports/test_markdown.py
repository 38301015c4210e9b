"""Markdown: what it says, that it fits, and that GitHub's own parser finds nothing of a stranger's in it."""

import re
from html.parser import HTMLParser

import cmarkgfm  # type: ignore[import-untyped]
import pytest
from cmarkgfm.cmark import Options  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.reports.hostile_run import HOSTILE_REPORT, HOSTILE_TOOLS, report_of, tools_of
from tests.reports.rows import FAILED, PASSED, REPORT, UNANSWERED
from tests.support.stored import CONTAINS, make_result, make_run

from agentv.reports.run.formats import ReportTools
from agentv.reports.run.markdown import make_markdown
from agentv.reports.run.views import RowDetail
from agentv.reports.text.markup import cell_code, inline_code
from agentv.reports.text.printable import one_line
from agentv.types.events import RowFinished, RunEnded
from agentv.types.json_value import JsonValue
from agentv.types.results import RunReport, RunVerdict
from agentv.types.summaries import CellSummary, GroupSummary, MatrixSummary

ROWS = (FAILED, UNANSWERED, PASSED)


def markdown(report: RunReport, tools: ReportTools) -> str:
    return make_markdown(tools).text_of(RunEnded(report))


def written(report: RunReport, *, name: str | None = None) -> str:
    return markdown(report, tools_of([RowDetail(row) for row in report.results], name=name))


def rendered(text: str) -> str:
    """Return the HTML that GitHub makes of a text before it cleans it."""
    return str(cmarkgfm.github_flavored_markdown_to_html(text, options=Options.CMARK_OPT_UNSAFE))


class Outside(HTMLParser):
    """Collects the elements of a page, and its text that stands in no code."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.code: list[str] = []
        self._in_code = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - the parser's signature
        self.tags.add(tag)
        self._in_code = self._in_code or tag == "code"
        if tag == "code":
            self.code.append("")

    def handle_endtag(self, tag: str) -> None:
        self._in_code = self._in_code and tag != "code"

    def handle_data(self, data: str) -> None:
        if self._in_code:
            self.code[-1] += data
        else:
            self.text += data


ONE_TARGET = """\
<!-- agentv-report -->

### ✗ agentv

**`FAIL: 404 of 560 judged results passed (72.14 %). 4 results with errors.` Exit code 1.**

#### did not pass: 2 cases

- ✗ `refund-7` 1 of 2 passed, 0.33, at `evals/refunds.yaml:12`\\
  answer: `We will look into it.`\\
  reason: `contains: expected "30 days", got "We will look into it."`
- ! `order-9` at `evals/refunds.yaml:40`\\
  reason: `error target: HTTP 503 after 3 attempts (12.4 s)`

`agent-v2`: 1 of 2 passed, mean 0.67, 1 error, $0.0063, judges $0.0012, median 1.5 s, 450 tokens

<details><summary>run 20260131T120000-7f3a2b</summary>

run: `20260131T120000-7f3a2b`\\
results: 3 (1 pass, 1 fail, 1 error)\\
took: 0.0 s\\
state: finished\\
started: 2026-01-31 12:00 UTC\\
agentv: 0.1.0

</details>
"""


def test_the_verdict_stands_first_then_the_numbers_then_what_did_not_pass() -> None:
    assert written(replace(report_of(ROWS), verdict=REPORT.verdict)) == ONE_TARGET


TWO_TARGETS = """\
<!-- agentv-report: nightly-refunds -->

### ✗ agentv · `nightly refunds`

**`FAIL: nothing passed.` Exit code 1.**

✗ `pass_rate is 10 %, not >= 90 %`\\
✗ `pass_rate is 10 %, not >= 90 %`

#### did not pass: 140 cases

- ✗ `日本語\\x1b[2J · agent-v2` 0.00, at `evals/refunds.yaml:12`\\
  question: `How long?`\\
  answer: `red \\x1b]0;title\\x07`\\
  `::error::gotcha`\\
  `\\u202eevil\\u202c 👩‍👩‍👧 家族 100%, a:b`\\
  expected: `30 days`\\
  reason: `contains: red \\x1b]0;title\\x07 ::error::gotcha \\u202eevil\\u202c 👩‍👩‍👧 家族 100%, a:b`
- ✗ `refund-7 · agent-v2` 0.33, at `evals/refunds.yaml:12`\\
  question: `How long?`\\
  answer: `We will look into it.`\\
  expected: `30 days`\\
  reason: `contains: expected "30 days", got "We will look into it."`
- ! `order-9 · agent-v2` at `evals/refunds.yaml:40`\\
  question: `How long?`\\
  reason: `error target: HTTP 503 after 3 attempts (12.4 s)`
- and 137 more: `agentv show 20260131T120000-7f3a2b --failed`

`agent-v1`: 402 of 557 passed (95 % CI 68.3 to 75.8 %), mean 0.81, 31 borderline, 4 errors, $0.84, median 1.2 s, 150.0 k tokens\\
`agent-v2-with-a-long-name`: 2 of 3 passed, mean 0.67, median 3 ms

<details><summary>numbers: targets, scores, evaluators</summary>

#### Targets

| metric | `agent-v1` | 95 % CI | `agent-v2-with-a-long-name` |
| --- | ---: | ---: | ---: |
| pass rate | 72.2 % of 557 | 68.3 to 75.8 % | 66.7 % of 3 |
| mean score | 0.81 | 0.78 to 0.84 | 0.67 |
| `pass@3` | 90.1 % of 180 cases | 84.9 to 93.7 % | - |
| `pass^3` | 50.3 % of 180 cases | 43 to 57.6 % | - |
| pass | 402 |  | 2 |
| borderline | 31 |  | 0 |
| fail | 124 |  | 1 |
| errors | 4 |  | 0 |
| cost | $0.84 |  | - |
| median | 1.2 s | 1.1 s to 1.3 s | 3 ms |
| p95 | 4.5 s |  | 01:15 |
| tokens | 150.0 k |  | - |
| judges' tokens | 150.0 k |  | - |

#### Scores

scores: `0 │▁  ▁▁▁▁▂ █│ 1`, largest bin: 402 of 568

#### Evaluators

| evaluator | type | mean score | 95 % CI | errors |
| --- | ---: | ---: | ---: | ---: |
| `contains` | `contains` | 0.81 of 560 | 0.78 to 0.84 | 0 |
| `tone` | `llm_judge` | 0.90 of 553 |  | 7 |

</details>

<details><summary>1 flaky case</summary>

- `refund-3 (agent-v1)`

</details>

<details><summary>1 note</summary>

- `the price of 'small' is not known`

</details>

<details><summary>run 20260131T120000-7f3a2b</summary>

run: `20260131T120000-7f3a2b`\\
results: 564 of 1,440 planned (404 pass, 31 borderline, 125 fail, 4 error)\\
took: 02:41\\
state: finished\\
started: 2026-01-31 12:00 UTC\\
agentv: 0.1.0\\
tags: `nightly refunds`

</details>
"""  # noqa: E501 - as it is written


def test_two_targets_stand_by_name_and_gates_one_by_one() -> None:
    gates = report_of(ROWS, note="pass_rate is 10 %, not >= 90 %").verdict
    text = written(replace(REPORT, verdict=gates, results=ROWS), name="nightly refunds")
    assert text == TWO_TARGETS


def test_a_run_without_rows_says_its_verdict() -> None:
    nothing = replace(report_of(()), verdict=RunVerdict(5, "NOTHING SELECTED: no case matches the selection."))
    assert "**`NOTHING SELECTED: no case matches the selection.` Exit code 5.**" in written(nothing)


def test_the_first_line_is_the_same_for_every_run_of_a_name() -> None:
    assert written(report_of(ROWS)).split("\n")[0] == "<!-- agentv-report -->"
    assert written(report_of(()), name="Nightly --> <b>").split("\n")[0] == "<!-- agentv-report: nightly-b -->"


@pytest.mark.parametrize(
    ("name", "count", "title"),
    [
        (None, 1, "`evals/0.yaml`"),
        ("nightly", 3, "`nightly` · `evals/0.yaml`, `evals/1.yaml`, `evals/2.yaml`"),
        ("nightly", 5, "`nightly` · `evals/0.yaml`, `evals/1.yaml`, `evals/2.yaml` and 2 more"),
    ],
)
def test_the_title_names_the_run_and_its_first_suites(name: str | None, count: int, title: str) -> None:
    suites: list[JsonValue] = [{"path": f"evals/{number}.yaml"} for number in range(count)]
    tools = replace(tools_of([]), record=lambda _report: make_run(name=name, plan={"suites": suites}))
    assert f"### ✗ agentv · {title}\n" in markdown(REPORT, tools)


def test_the_report_is_written_at_the_end_of_a_run_only() -> None:
    assert make_markdown(tools_of([])).text_of(RowFinished(PASSED)) == ""


def test_nothing_of_a_stranger_is_markup() -> None:
    page = Outside(rendered(markdown(HOSTILE_REPORT, HOSTILE_TOOLS)))
    assert page.tags <= {
        "h3",
        "h4",
        "p",
        "strong",
        "code",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "ul",
        "li",
        "br",
        "sub",
    } | {
        "details",
        "summary",
    }
    assert not re.search(r"[@#<>]|://|www\.|owned|evil", page.text)


def test_the_naive_way_makes_links_and_mentions() -> None:
    page = Outside(rendered("**FAIL: [click](https://evil.example) <img src=x> @octocat**"))
    assert {"a", "img"} <= page.tags
    assert "@octocat" in page.text


@pytest.mark.parametrize("count", [0, 1, 5_000])
def test_it_fits_a_comment_and_counts_what_does_not(count: int) -> None:
    slot = make_result().slot
    rows = [
        make_result(candidate_answer="x" * 1000, slot=replace(slot, eval_id=f"refund-{number}"))
        for number in range(count)
    ]
    text = written(report_of(rows, note="n" * 10_000_000, sentence="FAIL: " + "y" * 10_000_000))
    assert len(text) < 65_536
    assert len(text.encode()) < 2**20
    if count == 5_000:
        shown = text.count("\n- ✗ `refund-")
        assert f"- and {count - shown:,} more: `agentv show" in text


def test_cases_after_the_third_are_collapsed() -> None:
    slot = make_result().slot
    rows = [make_result(slot=replace(slot, eval_id=f"refund-{number}")) for number in range(12)]
    page = rendered(written(report_of(rows)))
    before, _, collapsed = page.partition("<details><summary>7 more</summary>")
    assert (before.count("✗ <code>refund-"), collapsed.partition("</details>")[0].count("✗ <code>refund-")) == (3, 7)
    assert "<p>and 2 more: " in collapsed or "<li>and 2 more: " in collapsed


def test_groups_are_left_out_as_a_whole_and_counted() -> None:
    groups = [
        GroupSummary("tag", f"t-{number}", {"pass": 1}, 1.0, 1.0, target=target)
        for number in range(40)
        for target in ("one", "two", "three")
    ] + [GroupSummary("metadata.team", f"m-{number}", {"pass": 1}, 1.0, 1.0) for number in range(2)]
    text = written(replace(REPORT, results=ROWS, groups=tuple(groups), by=("tag", "metadata.team")))
    assert [text.count(f"\n| `{each}` |") for each in ("one", "two", "three")] == [33, 33, 33]
    assert "| `tag t-32` |" in text
    assert "| `tag t-33` |" not in text
    assert "| `m-0` |" not in text
    more = f"and 9 more groups: `agentv show {REPORT.run_id} --by tag --by metadata.team`"
    assert more in text.splitlines()


def test_targets_and_evaluators_that_are_left_out_are_counted() -> None:
    targets = tuple(replace(REPORT.targets[1], target=f"agent-{number}") for number in range(23))
    evaluators = tuple(replace(REPORT.evaluators[0], name=f"rule-{number}") for number in range(101))
    lines = written(replace(REPORT, results=ROWS, targets=targets, evaluators=evaluators)).splitlines()
    assert "and 3 more targets" in lines
    assert "and 1 more evaluator" in lines


def test_prompts_and_targets_of_a_matrix_that_are_left_out_are_counted() -> None:
    prompts, targets = ([f"{name}-{number}" for number in range(count)] for name, count in (("p", 21), ("t", 22)))
    cells = tuple(CellSummary(prompt, target, {"pass": 1}, 1.0, 1.0) for prompt in prompts for target in targets)
    lines = written(
        replace(REPORT, results=ROWS, matrix=MatrixSummary(tuple(prompts), tuple(targets), cells))
    ).splitlines()
    assert "and 1 more prompt, 2 more targets" in lines


any_text = st.text(st.sampled_from("a `|\\*<@#_\n\x1b\u202e[]()!&~"), max_size=30)


@given(any_text)
def test_a_text_in_code_is_shown_as_it_is(text: str) -> None:
    page = Outside(rendered(f"- {inline_code(text)} end"))
    assert page.tags <= {"ul", "li", "code"}
    assert page.code == [one_line(text) or "-"]


@given(any_text)
def test_a_text_in_a_table_stays_in_its_cell(text: str) -> None:
    page = Outside(rendered(f"| a | b |\n| --- | --- |\n| {cell_code(text)} | end |\n"))
    assert page.tags <= {"table", "thead", "tbody", "tr", "th", "td", "code"}
    shown = one_line(text) or "-"
    assert page.code == [shown.replace("|", r"\x7c") if "\\" in shown else shown]
    assert "end" in page.text


def test_open_cases_with_several_targets_have_a_line_of_each_text() -> None:
    slot, misses = make_result().slot, ("first\nreason", "second reason")
    contains = [replace(CONTAINS, name=f"rule-{number}", misses=(text,)) for number, text in enumerate(misses)]
    rows = [
        make_result(
            slot=replace(slot, eval_id=f"refund-{number}", target=target),
            evaluator_results=tuple(contains),
            candidate_answer=f"{target} says\nmore",
        )
        for number in range(4)
        for target in ("a", "b")
    ]
    opened, _, collapsed = written(report_of(rows)).partition("<details>")
    assert (opened.count("answer: `a says …`"), opened.count("rule-1")) == (3, 0)
    assert (collapsed.count("answer: `a says`"), collapsed.count("rule-1: second reason")) == (1, 2)

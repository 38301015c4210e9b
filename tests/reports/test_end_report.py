"""The report at the end of a run, as people see it."""

import pytest
from msgspec.structs import replace
from tests.reports.hostile_run import report_of
from tests.reports.outcomes import listed
from tests.reports.rows import FAILED, PASSED, REPORT

from agentv.reports.run.end_table import end_report
from agentv.reports.run.row_text import RowLabels
from agentv.reports.text.printable import printable
from agentv.reports.text.signs import in_colour
from agentv.reports.text.width import display_width
from agentv.types.results import RunReport, RunVerdict
from agentv.types.summaries import BaselineSummary, Interval

AT_80 = """\
did not pass: 140 cases
✗ 日本語\\x1b[2J · agent-v2  0.00
  question │ How long?
  answer   │ red \\x1b]0;title\\x07
           │ ::error::gotcha
           │ \\u202eevil\\u202c 👩‍👩‍👧 家族 100%, a:b
  expected │ 30 days
  reason   │ contains: red \\x1b]0;title\\x07 ::error::gotcha \\u202eevil\\u202c 👩‍👩‍👧
           │ 家族 100%, a:b
✗ refund-7 · agent-v2  0.33
  question │ How long?
  answer   │ We will look into it.
  expected │ 30 days
  reason   │ contains: expected "30 days", got "We will look into it."
! order-9 · agent-v2
  question │ How long?
  reason   │ error target: HTTP 503 after 3 attempts (12.4 s)
and 137 more: agentv show 20260131T120000-7f3a2b --failed

target                         pass rate         95 % CI  mean       95 % CI
agent-v1                   72.2 % of 557  68.3 to 75.8 %  0.81  0.78 to 0.84
agent-v2-with-a-long-name    66.7 % of 3               -  0.67             -

target                     pass  borderline  fail  errors
agent-v1                    402          31   124       4
agent-v2-with-a-long-name     2           0     1       0

target                cost  judges' cost  median    p95   tokens  judges' tokens
agent-v1             $0.84             -   1.2 s  4.5 s  150.0 k         150.0 k
agent-v2-with-a-lo…      -             -    3 ms  01:15        -               -

target    pass@3         95 % CI  pass^3       95 % CI  cases
agent-v1  90.1 %  84.9 to 93.7 %  50.3 %  43 to 57.6 %    180

scores  0 │▁▁▁      ▁▁▁▁▁▁▁▁▁▁▁▁▂▂▂   ███│ 1   largest bin: 402 of 568

evaluator  mean       95 % CI  results  errors       type
contains   0.81  0.78 to 0.84      560       0   contains
tone       0.90             -      553       7  llm_judge

flaky   refund-3 (agent-v1)

note    the price of 'small' is not known

Took 02:41
Wrote out.jsonl
Saved to /project/.agentv/runs/20260131T120000-7f3a2b
Details: agentv show 20260131T120000-7f3a2b (in the browser: agentv view)
Retry errors: agentv retry 20260131T120000-7f3a2b

FAIL: 404 of 560 judged results passed (72.14 %). 4 results with errors.
Exit code 1.
"""
IN_ASCII = """\
did not pass: 140 cases
x \\u65e5\\u672c\\u8a9e\\x1b[2J | agent-v2  0.00
  question | How long?
  answer   | red \\x1b]0;title\\x07
           | ::error::gotcha
           | \\u202eevil\\u202c \\U0001f469\\u200d\\U0001f469\\u200d\\U0001f46...
  expected | 30 days
  reason   | contains: red \\x1b]0;title\\x07 ::error::gotcha \\u202eevil\\u202c
           | \\U0001f469\\u200d\\U0001f469\\u200d\\U0001f467 \\u5bb6\\u65cf 100%, a:b
x refund-7 | agent-v2  0.33
  question | How long?
  answer   | We will look into it.
  expected | 30 days
  reason   | contains: expected "30 days", got "We will look into it."
! order-9 | agent-v2
  question | How long?
  reason   | error target: HTTP 503 after 3 attempts (12.4 s)
and 137 more: agentv show 20260131T120000-7f3a2b --failed

target                         pass rate         95 % CI  mean       95 % CI
agent-v1                   72.2 % of 557  68.3 to 75.8 %  0.81  0.78 to 0.84
agent-v2-with-a-long-name    66.7 % of 3               -  0.67             -

target                     pass  borderline  fail  errors
agent-v1                    402          31   124       4
agent-v2-with-a-long-name     2           0     1       0

target                cost  judges' cost  median    p95   tokens  judges' tokens
agent-v1             $0.84             -   1.2 s  4.5 s  150.0 k         150.0 k
agent-v2-with-a-...      -             -    3 ms  01:15        -               -

target    pass@3         95 % CI  pass^3       95 % CI  cases
agent-v1  90.1 %  84.9 to 93.7 %  50.3 %  43 to 57.6 %    180

scores  0 |...      ............:::   ###| 1   largest bin: 402 of 568

evaluator  mean       95 % CI  results  errors       type
contains   0.81  0.78 to 0.84      560       0   contains
tone       0.90             -      553       7  llm_judge

flaky   refund-3 (agent-v1)

note    the price of 'small' is not known

Took 02:41
Saved to /project/.agentv/runs/20260131T120000-7f3a2b
Details: agentv show 20260131T120000-7f3a2b (in the browser: agentv view)
Retry errors: agentv retry 20260131T120000-7f3a2b

FAIL: 404 of 560 judged results passed (72.14 %). 4 results with errors.
Exit code 1.
"""
UNCUT_FAILURES = """\
did not pass: 140 cases
✗ 日本語\\x1b[2J · agent-v2  0.00
  question │ How long?
  answer   │ red \\x1b]0;title\\x07
           │ ::error::gotcha
           │ \\u202eevil\\u202c 👩‍👩‍👧 家族 100%, a:b
  expected │ 30 days
  reason   │ contains: red \\x1b]0;title\\x07 ::error::gotcha \\u202eevil\\u202c 👩‍👩‍👧 家族 100%, a:b
✗ refund-7 · agent-v2  0.33
  question │ How long?
  answer   │ We will look into it.
  expected │ 30 days
  reason   │ contains: expected "30 days", got "We will look into it."
! order-9 · agent-v2
  question │ How long?
  reason   │ error target: HTTP 503 after 3 attempts (12.4 s)
and 137 more: agentv show 20260131T120000-7f3a2b --failed

"""


def test_at_80_columns() -> None:
    assert end_report(REPORT, width=80, files=("out.jsonl",)) == AT_80


def test_without_unicode() -> None:
    assert end_report(REPORT, width=80, unicode=False) == IN_ASCII


def test_uncut_each_text_is_one_line() -> None:
    report = end_report(REPORT, width=None)
    assert report[: report.index("target ")] == UNCUT_FAILURES


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal_but_paths_and_the_verdict(width: int) -> None:
    lines = end_report(REPORT, width=width).splitlines()
    free = ("kept", "look", "note", "and ", "FAIL:")
    assert [line for line in lines if display_width(line) > max(width, 75) and not line.startswith(free)] == []


def test_nothing_of_a_hostile_answer_reaches_the_terminal() -> None:
    text = end_report(REPORT)
    assert printable(text) == text
    assert not [line for line in text.splitlines() if line.lstrip().startswith("::")]


def test_the_verdict_with_its_exit_code_is_the_last_line() -> None:
    report = replace(REPORT, verdict=RunVerdict(0, "PASS: all is well."))
    assert end_report(report).splitlines()[-1] == "PASS: all is well. Exit code 0."


def test_colours_change_nothing_but_colour() -> None:
    painted = end_report(REPORT, paint=in_colour)
    assert "\x1b[31mFAIL: 404" in painted
    assert printable(painted) == end_report(REPORT)


def test_a_run_without_rows_is_its_verdict() -> None:
    empty = RunReport("r", "finished", 0, (), (), (0,) * 10, RunVerdict(5, "NOTHING SELECTED: no case matches."))
    assert end_report(empty) == "Took 0.0 s\n\nNOTHING SELECTED: no case matches. Exit code 5.\n"


def test_skipped_rows_get_a_column_when_there_are_any() -> None:
    first = replace(REPORT.targets[0], counts={"pass": 18, "skipped": 2}, pass_rate=1.0)
    assert "\ntarget    pass  borderline  fail  errors  skipped\n" in end_report(replace(REPORT, targets=(first,)))


def test_a_narrow_terminal_gets_values_below_their_names() -> None:
    _, _, text = end_report(REPORT, width=40).partition("--failed\n\n")
    lines = text.split("\n")
    assert lines[:7] == [
        "agent-v1",
        "  pass rate 72.2 % of 557",
        "  95 % CI 68.3 to 75.8 %  mean 0.81",
        "  95 % CI 0.78 to 0.84",
        "agent-v2-with-a-long-name",
        "  pass rate 66.7 % of 3  95 % CI -",
        "  mean 0.67  95 % CI -",
    ]
    tables = lines[: lines.index("flaky   refund-3 (agent-v1)")]
    assert max(map(display_width, tables)) <= 40


def test_ten_flaky_cases_are_named_and_the_others_counted() -> None:
    many = replace(REPORT, flaky=tuple(f"case-{number}" for number in range(1, 1013)))
    lines = [line for line in end_report(many).splitlines() if line.startswith("flaky")]
    assert lines[9:] == ["flaky   case-10", "flaky   and 1,002 more: see -o report.json"]


def test_cases_of_several_suites_have_distinct_labels() -> None:
    shown = end_report(REPORT, labels=RowLabels(with_suite=True))
    assert "✗ refund-7 (evals/refunds.yaml) · agent-v2  0.33" in shown


def test_cases_that_differ_at_the_end_of_a_long_name_are_told_apart() -> None:
    prompts = [f"{'a-prompt-with-a-very-long-name-' * 4}{end}" for end in ("one", "two")]
    rows = [replace(FAILED, slot=replace(FAILED.slot, prompt=prompt), prompt=prompt) for prompt in prompts]
    questions = f"{'You are the friendly support agent of a shop. ' * 4}Where is parcel 1001?"
    lines = end_report(replace(REPORT, **listed(rows, question=questions)), width=80).splitlines()
    assert [line for line in lines if line.endswith(("-one 0.33", "-two 0.33"))]
    assert all(line.endswith("Where is parcel 1001?") for line in lines if line.startswith("  question"))
    assert max(map(display_width, lines)) <= 80


def small_run(results: int) -> RunReport:
    """Return the report of a run of one target that gets everything right."""
    rows = [replace(PASSED, slot=replace(PASSED.slot, eval_id=f"case-{number}")) for number in range(results)]
    return replace(report_of(rows), verdict=RunVerdict(0, f"PASS: {results} of {results} passed."))


ONE_PASS = """\
agent-v2: 1 of 1 passed, mean 1.00, $0.0021, judges $0.0004, median 1.5 s, 150 tokens

Took 0.0 s

PASS: 1 of 1 passed. Exit code 0.
"""


def test_a_small_run_that_passes_is_a_line_for_its_target() -> None:
    assert end_report(small_run(1), width=90) == ONE_PASS


@pytest.mark.parametrize(
    ("results", "has_tables", "has_histogram"),
    [(1, False, False), (19, False, False), (20, True, False), (49, True, False), (50, True, True)],
)
def test_tables_come_from_20_results_on_and_the_histogram_from_50(
    results: int, *, has_tables: bool, has_histogram: bool
) -> None:
    text = end_report(small_run(results))
    assert ("\ntarget " in f"\n{text}", "\nevaluator " in text) == (has_tables, has_tables)
    assert ("agent-v2: " in text) is not has_tables
    assert ("scores  0" in text) == has_histogram


def test_a_line_of_a_target_has_what_was_counted() -> None:
    target = replace(REPORT.targets[0], counts={"pass": 6, "borderline": 1, "fail": 2, "error": 1, "skipped": 3})
    shown = end_report(replace(REPORT, targets=(replace(target, unverified=2),)), width=None)
    assert (
        "agent-v1: 6 of 9 passed (95 % CI 68.3 to 75.8 %), mean 0.81, 1 borderline, 3 skipped, 1 error, 2 unverified, "
        "$0.84, median 1.2 s, 150.0 k tokens\n"
    ) in shown


def test_a_run_with_a_baseline_shows_the_change_of_each_evaluator() -> None:
    baseline = BaselineSummary(
        baseline="nightly \x1b[2J" + "x" * 90,
        cases=180,
        finding="no evidence of a difference (n needed: 412)",
        difference=-0.024,
        interval=Interval(-0.061, 0.013, "student-t"),
        improved=4,
        regressed=9,
        evaluators={"contains": -0.0241},
    )
    shown = end_report(replace(REPORT, baseline=baseline))
    start = shown.index("evaluator  ")
    flaky = shown[start : shown.index("flaky")]
    assert (
        flaky
        == """\
evaluator  mean       95 % CI  difference  results  errors       type
contains   0.81  0.78 to 0.84       -0.02      560       0   contains
tone       0.90             -           -      553       7  llm_judge

baseline  nightly \\x1b[2Jxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…
          mean difference -0.02 (-0.06 to +0.01) over 180 cases in both
          9 cases regressed, 4 improved
          no evidence of a difference (n needed: 412)

"""
    )
    assert max(map(display_width, flaky.splitlines())) <= 80


@pytest.mark.parametrize("width", [50, 80])
def test_the_trace_of_a_failing_case_is_not_cut(width: int) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    row = replace(FAILED, file=f"traces/{'folder-' * 5}/agent.jsonl", line=1234, line_digest="d", trace_id=trace)
    shown = end_report(replace(report_of([row]), **listed([row])), width=width)
    assert f" {trace}\n" in shown
    assert max(map(display_width, shown.splitlines())) <= width

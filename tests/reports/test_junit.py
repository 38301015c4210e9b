"""JUnit XML: what stands in it, and that it is XML whatever anybody wrote."""

from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.reports.hostile_run import HOSTILE_REPORT, HOSTILE_TOOLS, hostile_detail, report_of, tools_of
from tests.reports.rows import FAILED, PASSED, UNANSWERED
from tests.support.stored import make_result

from agentv.reports.run.junit import junit
from agentv.reports.run.views import RowDetail
from agentv.types.records.result import CaseResult

SKIPPED = make_result(status="skipped", score=None, verdict=None, evaluator_results=())


def written(*rows: CaseResult) -> str:
    return junit(report_of(rows), tools_of([RowDetail(row) for row in rows]))


WRITTEN = """\
<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="agentv run 20260131T120000-7f3a2b" tests="4" failures="1" errors="1" time="0.000">
  <testsuite name="evals/refunds.yaml" tests="4" failures="1" errors="1" skipped="1" time="16.900">
    <properties>
      <property name="agentv.verdict" value="FAIL: nothing passed."/>
      <property name="agentv.exit_code" value="1"/>
      <property name="agentv.run_id" value="20260131T120000-7f3a2b"/>
    </properties>
    <testcase classname="evals/refunds.yaml" name="refund-7" file="evals/refunds.yaml" line="12" time="1.500">
      <failure message='contains: expected "30 days", got "We will look into it."' type="fail">contains: expected "30 days", got "We will look into it."</failure>
    </testcase>
    <testcase classname="evals/refunds.yaml" name="refund-7" file="evals/refunds.yaml" line="12" time="1.500"/>
    <testcase classname="evals/refunds.yaml" name="order-9" file="evals/refunds.yaml" line="40" time="12.400">
      <error message="error target: HTTP 503 after 3 attempts (12.4 s)" type="server_error">error target: HTTP 503 after 3 attempts (12.4 s)</error>
    </testcase>
    <testcase classname="evals/refunds.yaml" name="refund-7" file="evals/refunds.yaml" line="12" time="1.500">
      <skipped message="contains: missed | tone: Friendly throughout."/>
    </testcase>
  </testsuite>
</testsuites>
"""  # noqa: E501 - a reason stands on one line


def test_each_row_is_a_testcase_with_its_place_and_its_whole_reason() -> None:
    assert written(FAILED, PASSED, UNANSWERED, SKIPPED) == WRITTEN


def test_a_long_reason_is_whole_in_the_text_and_short_in_the_message() -> None:
    long = make_result(error=None, evaluator_results=(), reasoning="so " * 5_000)
    (failure,) = ET.fromstring(written(long)).iter("failure")
    assert (failure.text or "").split() == ["so"] * 5_000
    assert len(failure.attrib["message"]) < 600


def test_a_run_without_rows_is_xml_with_the_verdict() -> None:
    root = ET.fromstring(written())
    assert (root.get("tests"), [each.get("value") for each in root.iter("property")][:2]) == (
        "0",
        ["FAIL: nothing passed.", "1"],
    )


def test_hostile_texts_are_texts() -> None:
    root = ET.fromstring(junit(HOSTILE_REPORT, HOSTILE_TOOLS).encode())
    assert {each.tag for each in root.iter()} == {
        "testsuites", "testsuite", "properties", "property", "testcase", "error",
    }  # fmt: skip
    assert len(list(root.iter("testcase"))) == len(HOSTILE_REPORT.results)


@given(st.text(st.characters(codec=None), min_size=1, max_size=20))
def test_every_text_is_valid_xml(text: str) -> None:
    detail = hostile_detail(text)
    ET.fromstring(junit(report_of([detail.result]), tools_of([detail])).encode())


def test_a_row_from_a_trace_names_it() -> None:
    traced = replace(FAILED, file="otlp", line=3, line_digest="d", trace_id="4bf92f", span_id="00f067")
    (failure,) = ET.fromstring(written(traced)).iter("failure")
    assert (failure.text or "").splitlines()[-1] == "from: otlp:3, trace 4bf92f, span 00f067"

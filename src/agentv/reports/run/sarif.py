"""A run as a SARIF 2.1.0 log: each result that did not pass, at the file and line of its case."""

from collections.abc import Mapping
from urllib.parse import quote

from agentv.reports.run.formats import Format, ReportTools
from agentv.reports.run.row_text import PLAIN_LABELS, row_reason
from agentv.reports.text.printable import printable_json
from agentv.scoring.results.aggregation import row_state
from agentv.types.events import RunEnded, RunEvent
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import pretty_json
from agentv.types.records.result import CaseResult
from agentv.types.results import RunReport
from agentv.version import __version__

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

_LEVELS = {"fail": "error", "error": "error", "borderline": "warning"}
_RULES: Mapping[str, str] = {
    "fail": "An answer did not pass",
    "borderline": "An answer passed only in part",
    "error": "A case could not be scored, which is not the answer's fault",
}


def make_sarif(tools: ReportTools) -> Format:
    """Return the format that writes a SARIF log at the end of the run."""

    def text_of(event: RunEvent) -> str:
        return sarif(event.report, tools) if isinstance(event, RunEnded) else ""

    return Format(text_of, empty=None)


def sarif(report: RunReport, tools: ReportTools) -> str:
    """Return the log as indented JSON. The verdict is the `exitCodeDescription` of its only invocation."""
    rules: list[JsonValue] = [
        {"id": f"agentv/{state}", "shortDescription": {"text": text}} for state, text in _RULES.items()
    ]
    results: list[JsonValue] = [_result(row) for row in tools.rows(report) if row_state(row) in _LEVELS]
    run: JsonObject = {
        "tool": {"driver": {"name": "agentv", "version": __version__, "rules": rules}},
        "automationDetails": {"id": f"agentv/{report.run_id}"},
        "invocations": [
            {
                "executionSuccessful": report.state == "finished",
                "exitCode": report.exit_code,
                "exitCodeDescription": report.verdict.sentence,
            }
        ],
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return printable_json(pretty_json({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]})) + "\n"


def _result(row: CaseResult) -> JsonObject:
    state = row_state(row)
    location: dict[str, JsonValue] = {"artifactLocation": {"uri": quote(row.file or row.slot.suite)}}
    if row.line:
        location["region"] = {"startLine": row.line}
    slot = row.slot
    prompt = "" if slot.prompt is None else f" {slot.prompt}"
    ids: JsonObject = {name: each for name, each in (("trace_id", row.trace_id), ("span_id", row.span_id)) if each}
    return {
        "ruleId": f"agentv/{state}",
        "level": _LEVELS[state],
        "message": {"text": f"{PLAIN_LABELS.label(row)}: {row_reason(row)}"},
        "locations": [{"physicalLocation": location}],
        "partialFingerprints": {"slot/v1": f"{slot.suite} {slot.eval_id} {slot.target} {slot.trial}{prompt}"},
        **({"properties": ids} if ids else {}),
    }

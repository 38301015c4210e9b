"""Spans as OTLP exports in JSON."""

from typing import Any

START = "1767225600000000000"


def attribute(key: str, value: Any) -> dict[str, Any]:
    if isinstance(value, int):
        return {"key": key, "value": {"intValue": str(value)}}
    if isinstance(value, list):
        return {"key": key, "value": {"arrayValue": {"values": [attribute("", each)["value"] for each in value]}}}
    if isinstance(value, dict):
        return {"key": key, "value": {"kvlistValue": {"values": [attribute(*item) for item in value.items()]}}}
    return {"key": key, "value": {"stringValue": value}}


def span(number: int, parent: int | None, attributes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "traceId": "4bf92f3577b34da6a3ce929d0e0e4736",
        "spanId": f"{number:016x}",
        "parentSpanId": "" if parent is None else f"{parent:016x}",
        "name": f"span {number}",
        "startTimeUnixNano": START,
        "endTimeUnixNano": str(int(START) + 250_000_000),
        "attributes": [attribute(*item) for item in attributes.items()],
        "status": {},
        **more,
    }


def export(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"scope": {}, "spans": list(spans)}]}]}

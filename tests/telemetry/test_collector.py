"""The collector that `--otel` and the standard variables name."""

import pytest

from agentv.telemetry.sending.collector import Collector, find_collector, header_secrets
from agentv.types.errors import ConfigError

BASE = "OTEL_EXPORTER_OTLP_"


def urls(collector: Collector) -> dict[str, str]:
    return {signal: endpoint.url for signal, endpoint in collector.endpoints.items()}


def both(base: str) -> dict[str, str]:
    return {"traces": f"{base}/v1/traces", "logs": f"{base}/v1/logs"}


@pytest.mark.parametrize(
    ("url", "base"),
    [
        pytest.param("http://c:4318", "http://c:4318", id="base"),
        pytest.param("http://c:4318/", "http://c:4318", id="slash"),
        pytest.param("https://c/api/otel", "https://c/api/otel", id="path"),
        pytest.param("http://c/v1/traces", "http://c", id="traces"),
        pytest.param("http://c/v1/logs/", "http://c", id="logs"),
    ],
)
def test_a_url_is_the_base_of_both_signals(url: str, base: str) -> None:
    assert urls(find_collector(url, {})) == both(base)


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        pytest.param({}, both("http://localhost:4318"), id="default"),
        pytest.param({"ENDPOINT": "http://c/x/"}, both("http://c/x"), id="base"),
        pytest.param({"TRACES_ENDPOINT": "http://c/in"}, {"traces": "http://c/in"}, id="traces-only"),
        pytest.param(
            {"ENDPOINT": "http://c", "LOGS_ENDPOINT": "http://l/in"},
            {"traces": "http://c/v1/traces", "logs": "http://l/in"},
            id="one-of-its-own",
        ),
    ],
)
def test_the_standard_variables_name_the_endpoints(env: dict[str, str], expected: dict[str, str]) -> None:
    assert urls(find_collector("", {BASE + name: value for name, value in env.items()})) == expected


def test_an_exporter_of_none_switches_a_signal_off() -> None:
    env = {f"{BASE}ENDPOINT": "http://c", "OTEL_LOGS_EXPORTER": "none"}
    assert urls(find_collector("", env)) == {"traces": "http://c/v1/traces"}


def test_headers_are_decoded_and_those_of_a_signal_come_first() -> None:
    env = {f"{BASE}HEADERS": "api-key=a%20b, x=1", f"{BASE}LOGS_HEADERS": "api-key=logs"}
    found = find_collector("http://c", env)
    assert found.endpoints["traces"].headers == {"api-key": "a b", "x": "1"}
    assert found.endpoints["logs"].headers == {"api-key": "logs"}


def test_time_limit_and_compression_come_from_variables() -> None:
    endpoint = find_collector("http://c", {f"{BASE}TIMEOUT": "2500", f"{BASE}COMPRESSION": "none"}).endpoints["traces"]
    assert (endpoint.timeout_s, endpoint.is_compressed) == (2.5, False)


@pytest.mark.parametrize(
    ("url", "env", "said"),
    [
        pytest.param("localhost:4318", {}, "--otel must be the URL", id="no-scheme"),
        pytest.param("1", {}, "--otel must be the URL", id="no-url"),
        pytest.param("ftp://c", {}, "--otel must be the URL", id="scheme"),
        pytest.param("", {f"{BASE}ENDPOINT": "collector"}, f"{BASE}ENDPOINT must be", id="variable"),
        pytest.param("http://c", {f"{BASE}HEADERS": "sesame-open"}, f"{BASE}HEADERS must be a list", id="headers"),
        pytest.param("http://c", {f"{BASE}HEADERS": "a=sesame%0d%0ab: c"}, f"{BASE}HEADERS must be", id="line-break"),
        pytest.param("http://c", {f"{BASE}TIMEOUT": "soon"}, "milliseconds", id="timeout"),
        pytest.param("http://c", {f"{BASE}CERTIFICATE": "/none"}, "there is no file /none", id="certificate"),
        pytest.param("", {f"{BASE}PROTOCOL": "grpc"}, "4318", id="grpc"),
        pytest.param("", {"OTEL_TRACES_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}, "nothing", id="all-off"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused(url: str, env: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as found:
        find_collector(url, env)
    assert "sesame" not in str(found.value)


def test_no_text_of_a_collector_has_its_secrets() -> None:
    found = find_collector("https://me:hunter22@c/x?key=hunter22", {f"{BASE}HEADERS": "api-key=hunter22"})
    shown = (found.shown, found.option, found.key("traces", with_content=True), repr(found), str(found))
    assert not [text for text in shown if "hunter22" in text]
    assert found.shown == "https://c/x"


def test_the_values_of_headers_are_secrets() -> None:
    assert set(header_secrets({f"{BASE}TRACES_HEADERS": "k=a%20b,l=c"})) == {"a%20b", "a b", "c"}

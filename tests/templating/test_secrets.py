import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.templating.secrets import (
    SecretRedactor,
    known_keys,
    looks_secret,
    redact_message,
    secret_values,
    secrets_in_urls,
)

WORDS = st.text(st.characters(exclude_characters="*"))


@pytest.mark.parametrize(
    "name",
    [
        *("api_key", "apiKey", "API_KEY", "X-Api-Key", "authorization", "GITHUB_TOKEN", "dbPassword", "PGPASSWD"),
        *("OPENAI_API_KEY_2", "OPENAI_KEY2", "GH_PAT", "AWS_CREDENTIALS", "X-Auth", "Cookie", "SESSION_ID"),
        *("SENTRY_DSN", "TOKEN_GITHUB", "DB_CRED", "$.targets[0].api_key"),
    ],
)
def test_names_that_look_secret(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        *("max_output_tokens", "tokens_per_minute", "keyword", "secretary", "model", "", "author", "PATH", "pattern"),
        *("KEY_FILE", "JUDGE_KEY_MODEL", "XDG_SESSION_TYPE", "SECRET_REGION", "compat", "123"),
    ],
)
def test_names_that_do_not_look_secret(name: str) -> None:
    assert not looks_secret(name)


def test_secret_values_are_long_and_named_so() -> None:
    variables = {"API_KEY": "sk-12345678", "HOME": "/home/user", "PIN_KEY": "1234"}

    assert secret_values(variables) == {"sk-12345678"}


@given(st.text(st.characters(exclude_characters="*"), min_size=8), WORDS, WORDS)
def test_a_struck_secret_is_gone_from_text_and_json(secret: str, before: str, after: str) -> None:
    redactor = SecretRedactor([secret])
    text = before + secret + after

    assert secret not in redactor.redact(text)
    for is_ascii in (True, False):
        line = redactor.redact(json.dumps({"said": text}, ensure_ascii=is_ascii))
        assert json.dumps(secret, ensure_ascii=is_ascii)[1:-1] not in line


def test_the_longest_secret_is_struck_first() -> None:
    assert SecretRedactor(["abcdefgh", "abcdefgh-long"]).redact("abcdefgh-long abcdefgh") == "*** ***"


def test_a_text_without_secrets_stays() -> None:
    text = base64.b64encode(b"something else").decode()

    assert SecretRedactor(["sk-12345678"]).redact(text) == text
    assert SecretRedactor([]).redact(text) == text


@pytest.mark.parametrize(
    ("url", "secrets"),
    [
        ("ssh://git@github.com/a/b", set()),
        ("https://example.com/?lang=en-US-long", set()),
        ("postgres://app:pw@db/x", {"app:pw@"}),
        ("https://ghp_0123456789@github.com", {"ghp_0123456789@", "ghp_0123456789"}),
        ("https://x/?token=a%2Bbcdefgh", {"a%2Bbcdefgh", "a+bcdefgh"}),
        ("https://x/?lang=en&api%5Fkey=ab%2Fcd%2Fefg", {"ab%2Fcd%2Fefg", "ab/cd/efg"}),
        (
            "see https://u:p%40ssword1@x/ there",
            {"u:p%40ssword1@", "u:p%40ssword1", "u:p@ssword1", "p%40ssword1", "p@ssword1"},
        ),
        ("http://[bad", set()),
    ],
)
def test_secrets_in_urls(url: str, secrets: set[str]) -> None:
    assert set(secrets_in_urls(url)) == secrets


@pytest.mark.parametrize(
    "key",
    [
        "sk_live_0123456789abcdefABCD",
        "rk_test_0123456789abcdefABCD",
        "AKIA0123456789ABCDEF",
        "sk-ant-api03-abcdefghij_KLMNOP",
        "sk-proj-abcdefghij_KLMNOP-q",
        "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "xoxp-123456789012-abcdefABCDEF",
    ],
)
@pytest.mark.parametrize("around", ["{}", "key = '{}'\n", '{{"k":"{}"}}', "https://x/?k={}&b", "+K={}\r\n"])
def test_keys_are_known_by_their_shape(key: str, around: str) -> None:
    assert list(known_keys(around.format(key))) == [key]


@pytest.mark.parametrize(
    "text",
    [
        "pip install sk-learn",
        ".sk-fading-circle-container-of-twelve-dots { color: red }",
        "task_live_reloading_of_modules disk-ant-colony",
        "AKIA and ASIA are prefixes, MALAKIA0123456789ABCDEFGHIJ is none",
        "ghp_ xoxb- sk_live_... sk-ant-KEY",
        "-----BEGIN PRIVATE KEY----- is followed by\ninternationalizations\nand other words",
        "-----BEGIN CERTIFICATE-----\nMIIEpAIBAAKCAQEAx1y2z3\n-----END CERTIFICATE-----\n",
    ],
)
def test_words_are_not_taken_for_keys(text: str) -> None:
    assert list(known_keys(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKCAQEAx1y2z3\n-----END PRIVATE KEY-----",
        "  -----BEGIN OPENSSH PRIVATE KEY-----\r\n  Proc-Type: 4\r\n\r\n  MIIEpAIBAAKCAQEAx1y2z3\r\n  -----END x",
        '"-----BEGIN EC PRIVATE KEY----- MIIEpAIBAAKCAQEAx1y2z3 -----END EC PRIVATE KEY-----"',
    ],
)
def test_the_data_of_private_keys_is_known(text: str) -> None:
    assert list(known_keys(text)) == ["MIIEpAIBAAKCAQEAx1y2z3"]


@pytest.mark.parametrize(
    "text",
    ["-----BEGIN PRIVATE KEY-----" * 40_000, "sk-ant-" * 150_000, "AKIA" * 250_000, "xoxb-" * 200_000, "sk-" * 300_000],
)
def test_keys_are_found_in_linear_time(text: str) -> None:
    """A search that starts again at each of them takes many minutes; a hit or none is all the same here."""
    assert len(list(known_keys(text))) <= 1


@pytest.mark.parametrize(
    ("message", "redacted"),
    [
        ("no key named runs/results-000001.jsonl", None),
        ("An error occurred (NoSuchKey): the key: runs/results-000001.jsonl", None),
        ("Content-Type: application/json; x-amz-request-id: 8Q2Y5B7D9F1H3K5M", None),
        ("x-amz-security-token: FwoGZXIvYXdzEBYa", "x-amz-security-token: ***"),
        ("{'Authorization': 'Bearer 0a1b2c3d4e5f', 'Host': 'x'}", "{'Authorization': '***', 'Host': 'x'}"),
        ("b'X-Api-Key': b'0a1b2c3d4e5f'", "b'X-Api-Key': b'***'"),
        ("Authorization: AWS4-HMAC-SHA256 Credential=AKIA/s3, Signature=0a1b\nHost: x", "Authorization: ***\nHost: x"),
        ("GET https://x/y?sv=2026&sig=0a1b2c3d4e5f%3D gave 403", "GET https://x/y?sv=2026&sig=*** gave 403"),
        ("GET https://x/y?X-Goog-Signature=0a1b2c3d4e5f&a=1", "GET https://x/y?X-Goog-Signature=***&a=1"),
        ("AccountKey=0a1b2c3d4e5f of the variables", "AccountKey=*** of the variables"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789 is no key", "*** is no key"),
    ],
)
def test_messages_of_others_are_shown_without_secrets(message: str, redacted: str | None) -> None:
    assert redact_message(message, {"STORE_KEY": "0a1b2c3d4e5f", "HOME": "/root"}) == (redacted or message)


def test_a_long_message_of_others_is_cut_without_a_part_of_a_secret() -> None:
    shown = redact_message("x" * 3990 + "0a1b2c3d4e5f" * 1000, {"STORE_KEY": "0a1b2c3d4e5f"})
    assert shown == "x" * 3990 + "***" * 3 + "*…"

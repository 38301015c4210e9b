import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.templating.secrets import SecretRedactor, looks_secret, secret_values

WORDS = st.text(st.characters(exclude_characters="*"))


@pytest.mark.parametrize(
    "name", ["api_key", "apiKey", "API_KEY", "X-Api-Key", "authorization", "GITHUB_TOKEN", "dbPassword"]
)
def test_names_that_look_secret(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize("name", ["max_output_tokens", "tokens_per_minute", "keyword", "secretary", "model", ""])
def test_names_that_do_not_look_secret(name: str) -> None:
    assert not looks_secret(name)


def test_secret_values_are_long_and_named_so() -> None:
    variables = {"API_KEY": "sk-12345678", "HOME": "/home/user", "PIN_KEY": "1234"}

    assert secret_values(variables) == {"sk-12345678"}


@given(WORDS.filter(lambda word: len(word) >= 8), WORDS, WORDS)
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

"""The password of a database's URL is redacted, but not words that occur in texts for other reasons."""

import pytest

from agentv.templating.secrets import SecretRedactor
from agentv.templating.store_url import store_secrets


@pytest.mark.parametrize(
    ("url", "said", "left"),
    [
        ("postgresql://ann:s3cret@db/evals", "S=postgresql://ann:s3cret@db/evals; s3cret", "S=***; ***"),
        ("postgresql://ann:s3%20cret@db/e", "it is 's3 cret', written s3%20cret", "it is '***', written ***"),
        ("postgresql://db/e?password=s3cret&sslmode=require", "s3cret require", "*** require"),
        ("postgresql://db/e?scram_client_key=s3cret&scram_server_key=s3cre7", "s3cret s3cre7", "*** ***"),
        ("postgresql://postgres:postgres@db/e", "postgres is postgres:postgres@db", "postgres is postgres***db"),
        ("postgresql://ann:pw@db/e", "pw of ann:pw@db", "pw of ann***db"),
        ("postgresql://ann@db/evals", "postgresql://ann@db/evals has evals", "postgresql://ann@db/evals has evals"),
        ("", "nothing", "nothing"),
    ],
)
def test_what_is_struck(url: str, said: str, left: str) -> None:
    assert SecretRedactor(store_secrets(url)).redact(said) == left


def test_a_password_beside_the_url_is_struck_too() -> None:
    assert SecretRedactor(store_secrets("postgresql://ann@db/evals", "s3cret")).redact("ann: s3cret") == "ann: ***"

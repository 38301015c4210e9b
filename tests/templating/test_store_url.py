"""A store's URL is shown without its secrets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.storage.postgres.connection import connect
from agentv.templating.store_url import parse_store_url
from agentv.types.errors import ConfigError, StorageError

SHOWN = {
    "postgresql://ann:s3cret-pw@db.example:5432/evals": "postgresql://ann@db.example:5432/evals",
    "postgres://db.example/evals?sslmode=require&password=s3cret-pw": "postgres://db.example/evals",
    "postgresql://ann:s3c@ret/pw@one:1,two:2/evals": "postgresql://ann@one:1,two:2/evals",
    "postgresql://ann@/evals?host=/run/pg": "postgresql://ann@/evals?host=/run/pg",
}


@pytest.mark.parametrize(("text", "shown"), SHOWN.items())
def test_what_is_shown(text: str, shown: str) -> None:
    url = parse_store_url(text)
    assert (str(url), url.text) == (shown, text)
    assert "s3c" not in repr(url) + str(url)


@given(
    st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S"]), min_size=4).filter(
        lambda s: s not in "hostdb"
    )
)
def test_no_password_is_shown(password: str) -> None:
    secret = f"pw{password}wp"
    url = parse_store_url(f"postgresql://ann:{secret}@host/db")
    assert secret not in str(url)
    assert secret not in url.redact(f"invalid {url.text!r}: {secret}")


@pytest.mark.parametrize("text", ["", "evals", "postgresql:ann", "://pw-of-ann@"])
def test_text_that_is_no_store_url_is_refused_without_being_quoted(text: str) -> None:
    with pytest.raises(ConfigError, match="postgresql://user@host/database") as refused:
        parse_store_url(text)
    assert "pw-of-ann" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ann:s3cret-pw@host:nonsense/db",
        "postgresql://ann:s3cret%ZZpw@host/db",
        "postgresql://ann:s3cret-pw@host/db?no_such_parameter=1",
        "postgresql://ann:s3cret-pw@127.0.0.1:1/db",
        "postgresql://ann:s3cret-pw@/db?host=/no/such/folder",
    ],
)
def test_no_error_of_connecting_says_the_password(text: str) -> None:
    with pytest.raises(StorageError) as refused:
        connect(parse_store_url(text))
    assert "s3cret" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


def test_the_error_of_a_misspelt_parameter_names_it() -> None:
    url = "postgresql://ann:s3cret-pw@db/evals?ssl_mode=verify-full&connect_timeout=5"
    with pytest.raises(StorageError, match=r"not a valid PostgreSQL URL: there is no parameter ssl_mode$"):
        connect(parse_store_url(url))


@pytest.mark.parametrize("name", ["sslcert", "sslkey", "sslrootcert", "sslcrl", "sslcrldir"])
def test_a_file_of_tls_that_does_not_exist_is_an_error_that_names_it(name: str) -> None:
    """PostgreSQL's own client ignores a missing certificate of the client, and missing lists of revoked ones."""
    with pytest.raises(StorageError, match=f"{name} /no/such/file does not exist$"):
        connect(parse_store_url(f"postgresql://ann@127.0.0.1:1/db?{name}=/no/such/file"))


KEPT = {
    "postgresql://ann:s3cret-pw@db.example:5432/evals?sslmode=require": (
        "postgresql://ann@db.example:5432/evals?sslmode=require"
    ),
    "postgres://db/evals?password=s3cret-pw&options=-c%20a%3D1&sslpassword=s3cret&oauth_client_secret=s3cret": (
        "postgres://db/evals?options=-c%20a%3D1"
    ),
    "postgresql://ann@/evals?host=/run/pg": "postgresql://ann@/evals?host=%2Frun%2Fpg",
    "postgresql://ann:s3cret?pw@db/evals": "***",
    "postgresql://ann@db/evals?scram_client_key=s3cret&scram_server_key=s3cret": "postgresql://ann@db/evals",
    **{
        f"postgresql://ann@db/evals?{protection}": f"postgresql://ann@db/evals?{protection}"
        for protection in (
            "ssl=true",
            "sslcrl=root.crl&sslcrldir=crls&sslcertmode=require&sslsni=1",
            "ssl_min_protocol_version=TLSv1.3&ssl_max_protocol_version=TLSv1.3",
            "requirepeer=postgres&krbsrvname=db&gssdelegation=0",
            "keepalives=1&keepalives_idle=5&keepalives_interval=5&keepalives_count=2&tcp_user_timeout=9000",
        )
    },
}


@pytest.mark.parametrize(("text", "kept"), KEPT.items())
def test_the_stored_url_connects_to_the_same_database_without_a_password(text: str, kept: str) -> None:
    assert parse_store_url(text).public == kept


def test_a_database_is_one_place_for_every_user() -> None:
    places = {
        parse_store_url(f"postgresql://{who}db/evals?sslmode=require").place for who in ("", "ann@", "bob:s3cret@")
    }
    assert places == {"db/evals"}

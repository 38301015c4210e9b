"""An error of the database is one line, in which the sentences of the driver's lines are still sentences."""

import psycopg
import pytest

from agentv.storage.postgres.connection import store_errors
from agentv.templating.store_url import parse_store_url
from agentv.types.errors import StorageError

SAID = {
    'root certificate file "ca.pem" does not exist\nEither provide the file, or change sslmode.\n': (
        'root certificate file "ca.pem" does not exist. Either provide the file, or change sslmode'
    ),
    "server closed the connection\n\tThis probably means it ended\n\tbefore or while processing the request.": (
        "server closed the connection. This probably means it ended before or while processing the request"
    ),
    "connection failed\nMultiple attempts failed. All failures were:\n- host: a\n- host: b": (
        "connection failed. Multiple attempts failed. All failures were: - host: a - host: b"
    ),
    "FATAL:  no such database": "FATAL: no such database",
    "": "OperationalError",
}


@pytest.mark.parametrize(("said", "shown"), SAID.items())
def test_the_lines_of_an_error_become_one(said: str, shown: str) -> None:
    url = parse_store_url("postgresql://ann:s3cret-pw@db/evals")
    with pytest.raises(StorageError) as raised, store_errors(url, "cannot be reached"):
        raise psycopg.OperationalError(said)
    assert str(raised.value) == f"the store postgresql://ann@db/evals cannot be reached: {shown}"

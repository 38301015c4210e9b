"""The names and versions of the stored records, and the refusal of records that are newer than this program."""

from agentv.types.errors import StorageError
from agentv.types.json_value import JsonObject

RUN_SCHEMA = "agentv-run-1"
EVENT_SCHEMA = "agentv-event-1"
CASE_SCHEMA = "agentv-case-1"
ANSWER_SCHEMA = "agentv-answer-1"
RESULT_SCHEMA = "agentv-result-1"
LABEL_SCHEMA = "agentv-label-1"
CACHED_SCHEMA = "agentv-cached-answer-1"


def check_schema(record: JsonObject, expected: str) -> None:
    """Raise StorageError unless `record` is of the expected sort and of a major version that this program reads.

    A record without `schema` is taken for what is expected: exports of others may lack it.
    """
    found = record.get("schema")
    if found is None or found == expected:
        return
    sort, _, version = str(found).rpartition("-")
    expected_sort, _, expected_version = expected.rpartition("-")
    major = version.partition(".")[0]
    if sort != expected_sort or not major.isdecimal():
        raise StorageError(f"expected a record of schema {expected!r}, found {found!r}")
    if int(major) > int(expected_version):
        raise StorageError(f"schema {found!r} is newer than this agentv reads ({expected!r}); upgrade agentv")

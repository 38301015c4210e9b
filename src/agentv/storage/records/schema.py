"""The refusal of records that are newer than this program."""

from agentv.types.errors import StorageError


def check_schema(found: object, expected: str) -> None:
    """Raise StorageError unless a record's `schema` is of the expected sort and of a version that this program reads.

    A record without one is taken for what is expected: exports of others may lack it.
    """
    if found is None or found == expected:
        return
    sort, _, version = str(found).rpartition("-")
    expected_sort, _, expected_version = expected.rpartition("-")
    major = version.partition(".")[0]
    if sort != expected_sort or not major.isdecimal():
        raise StorageError(f"expected a record of schema {expected!r}, found {found!r}")
    if int(major) > int(expected_version):
        raise StorageError(f"schema {found!r} is newer than this agentv reads ({expected!r}); upgrade agentv")

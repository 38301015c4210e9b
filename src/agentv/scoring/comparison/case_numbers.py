"""Cases as numbers, so that the sides of a comparison hold millions of cases in arrays."""

import re
from array import array

_DIGEST = re.compile(r"v1:([0-9a-f]{64})")
_DIGEST_BYTES = 32
_NO_DIGEST = bytes(_DIGEST_BYTES)
_PAGE_BITS = 6
_PAGE = 1 << _PAGE_BITS
_TARGET_BITS = 32


class CaseNumbers:
    """The number of each case of a suite, with its prompt and without its target.

    Sides of one comparison share their numbers, so that the id of a case is stored once.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str | None], dict[str, int]] = {}
        self._places: dict[tuple[str, str | None], int] = {}
        self._ids: list[str] = []
        self._place_of = array("I")
        self._suites_and_prompts: list[tuple[str, str | None]] = []

    def add(self, suite: str, eval_id: str, prompt: str | None) -> int:
        """Return the number of a case; a new case gets the next one."""
        place = (suite, prompt)
        numbers = self._numbers.get(place)
        if numbers is None:
            numbers = self._numbers[place] = {}
            self._places[place] = len(self._suites_and_prompts)
            self._suites_and_prompts.append(place)
        new = len(self._ids)
        number = numbers.setdefault(eval_id, new)
        if number == new:
            self._ids.append(eval_id)
            self._place_of.append(self._places[place])
        return number

    def find(self, suite: str, eval_id: str, prompt: str | None) -> int | None:
        """Return the number of a case, None for an unknown one."""
        numbers = self._numbers.get((suite, prompt))
        return None if numbers is None else numbers.get(eval_id)

    def parts(self, number: int) -> tuple[str, str, str | None]:
        """Return suite, id and prompt of a case."""
        suite, prompt = self._suites_and_prompts[self._place_of[number]]
        return suite, self._ids[number], prompt


class CaseKeys:
    """The keys of cases' contents, by the number of the case: digests in one array, other texts by themselves."""

    def __init__(self) -> None:
        self._digests = bytearray()
        self._others: dict[int, str] = {}

    def set(self, number: int, key: str) -> None:
        """Store the key of a case."""
        digest = _DIGEST.fullmatch(key)
        start = number * _DIGEST_BYTES
        if digest is None:
            self._others[number] = key
            return
        self._others.pop(number, None)
        missing = start + _DIGEST_BYTES - len(self._digests)
        if missing > 0:
            self._digests.extend(bytes(missing))
        self._digests[start : start + _DIGEST_BYTES] = bytes.fromhex(digest[1])

    def get(self, number: int) -> str | None:
        """Return the key of a case, None if it is not known."""
        other = self._others.get(number)
        if other is not None:
            return other
        start = number * _DIGEST_BYTES
        digest = self._digests[start : start + _DIGEST_BYTES]
        return None if not digest or digest == _NO_DIGEST else f"v1:{digest.hex()}"


class CaseIndexes:
    """The index of each case with its target in the columns of a side, in pages: a group has few of all cases."""

    def __init__(self) -> None:
        self._pages: dict[int, array[int]] = {}

    def get(self, case: int, target: int) -> int | None:
        """Return the index of a case with a target, None if there is none."""
        page = self._pages.get(case >> _PAGE_BITS << _TARGET_BITS | target)
        return None if page is None else (page[case % _PAGE] - 1 if page[case % _PAGE] else None)

    def set(self, case: int, target: int, index: int) -> None:
        """Store the index of a case with a target."""
        key = case >> _PAGE_BITS << _TARGET_BITS | target
        page = self._pages.get(key)
        if page is None:
            page = self._pages[key] = array("I", bytes(4 * _PAGE))
        page[case % _PAGE] = index + 1

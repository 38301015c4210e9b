"""Search for words of the case id, the question and the answer, in an FTS5 table without the texts."""

import re
import sqlite3
import unicodedata

from agentv.storage.index.statements import Statement

_CREATE_WORDS = "CREATE VIRTUAL TABLE words USING fts5(text, content='', detail=none)"
_DROP_WORDS = "DROP TABLE IF EXISTS words"
_HAS_WORDS = "SELECT count(*) FROM sqlite_master WHERE name = 'words'"
ADD_WORDS = "INSERT INTO words (rowid, text) VALUES (?, ?)"

LONGEST_TEXT = 16_000
"""The characters of a question or an answer whose words are searched."""

_MOST_WORDS = 32
_SHORTEST_START = 3
"""The fewest ASCII characters that are searched as the start of a word: fewer fit too many words."""

# FTS5 takes `_` as a separator, and reads a word that it splits as a phrase, which a table without positions refuses.
_WORD = re.compile(r"[^\W_]+")


def begin_words(connection: sqlite3.Connection) -> None:
    """Create the table `words`, empty; an SQLite without FTS5 has none, and finds no words."""
    connection.execute(_DROP_WORDS)
    try:
        connection.execute(_CREATE_WORDS)
    except sqlite3.OperationalError as error:
        if "fts5" not in str(error):
            raise


def has_words(connection: sqlite3.Connection) -> bool:
    """Return True if there is a table `words`."""
    (count,) = connection.execute(_HAS_WORDS).fetchone()
    return bool(count)


def split_words(q: str) -> tuple[str, ...]:
    """Return the different words of a text in order, at most 32.

    >>> split_words('"refund-7" NEAR(')
    ('refund', '7', 'NEAR')
    """
    found = dict.fromkeys(_WORD.findall(unicodedata.normalize("NFC", q)))
    return tuple(found)[:_MOST_WORDS]


def match_expression(words: tuple[str, ...]) -> str:
    """Return the FTS5 expression for texts that have all words, of the last one at least the start."""
    last = words[-1]
    is_start = len(last) >= _SHORTEST_START or not last.isascii()
    return " ".join(f'"{word}"' for word in words) + ("*" if is_start else "")


# A table of the connection, so that the rows with frequent words are found once for all pages.
_CREATE_FOUND = "CREATE TEMP TABLE IF NOT EXISTS found (found_line INTEGER PRIMARY KEY)"
_FORGET_FOUND = "DELETE FROM found"
_FIND = "INSERT INTO found SELECT rowid FROM words WHERE words MATCH :words"

FOUND = Statement("+line IN (SELECT found_line FROM found)", {})
"""The condition on rows that `find_words` found them; `+` because no index is to be searched for each of them."""

FOUND_FIRST = "found CROSS JOIN rows INDEXED BY written ON line = found_line"
"""The source of rows that reads the found ones one by one, which is fast if they are few."""


def find_words(connection: sqlite3.Connection, q: str) -> tuple[str, ...]:
    """Find the rows whose texts have all words of `q`, in place of those found before; return the words.

    Without a word that can be searched for, none are returned, and no row is found.
    """
    connection.execute(_CREATE_FOUND)
    words = split_words(q)
    if not words or _find(connection, words):
        return words
    # The Unicode version of SQLite may split a word that Python does not.
    words = tuple(word for word in words if _find(connection, (word,)))
    if words:
        _find(connection, words)
    return words


def _find(connection: sqlite3.Connection, words: tuple[str, ...]) -> bool:
    """Find the rows with all words; return False if they cannot be searched for."""
    connection.execute(_FORGET_FOUND)
    try:
        connection.execute(_FIND, {"words": match_expression(words)})
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        return False
    return True

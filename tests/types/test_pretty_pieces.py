"""JSON in pieces: the text of `pretty_json`, with one item of a long list in memory at a time."""

from collections.abc import Iterator

from agentv.types.json_value import JsonValue
from agentv.types.messages_json import pretty_json, pretty_pieces


def test_iterators_are_written_as_lists_are() -> None:
    inner: list[JsonValue] = [{"a": [1, {"b": "line\nline"}], "c": {}}, "x", []]
    whole: JsonValue = {"first": 1, "many": inner, "none": [], "groups": [{"g": "ä", "many": inner}, {"many": []}]}
    groups = ({"g": "ä", "many": iter(inner)}, {"many": iter(())})
    streamed = {"first": 1, "many": iter(inner), "none": iter(()), "groups": iter(groups)}
    assert "".join(pretty_pieces(streamed)) == pretty_json(whole)
    assert "".join(pretty_pieces(iter(inner))) == pretty_json(inner)
    assert "".join(pretty_pieces("text")) == '"text"'


def test_an_item_is_read_when_those_before_it_are_written() -> None:
    read: list[int] = []

    def items() -> Iterator[int]:
        for number in range(3):
            read.append(number)
            yield number

    pieces = pretty_pieces({"many": items()})
    written = ""
    while "0" not in written:
        written += next(pieces)
    assert read == [0]

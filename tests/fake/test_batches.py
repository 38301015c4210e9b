"""Batches: input and output files, message batches, and their faults."""

import json
from typing import Any

import pytest
from tests.fake.client import MESSAGES, SAID, Answer, chat_text, get, messages_text, post, send
from tests.support.fake_server import serving_fake

from agentv.fake import FAULTS, FakeServer
from agentv.fake.faults import OddBody, OddSending

CHAT = "/v1/chat/completions"


def line(name: str, model: str = "fake", *, url: str = CHAT, **more: object) -> dict[str, Any]:
    return {"custom_id": name, "method": "POST", "url": url, "body": {"model": model, "messages": MESSAGES, **more}}


def upload(server: FakeServer, *lines: object, base: str = "/v1") -> str:
    rows = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in lines)
    edge = "EDGE"
    parts = [
        f'--{edge}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n',
        f'--{edge}\r\nContent-Disposition: form-data; name="file"; filename="in.jsonl"\r\n\r\n{rows}\r\n',
        f"--{edge}--\r\n",
    ]
    headers = {"Content-Type": f"multipart/form-data; boundary={edge}"}
    answered = send(server, "POST", f"{base}/files", "".join(parts).encode(), headers)
    assert (answered.status, answered.json["status"]) == (200, "processed")
    return str(answered.json["id"])


def begin(server: FakeServer, *lines: object, endpoint: str = CHAT, base: str = "/v1") -> str:
    body = {"input_file_id": upload(server, *lines, base=base), "endpoint": endpoint, "completion_window": "24h"}
    answered = post(server, f"{base}/batches", body, authorization="Bearer k")
    assert (answered.status, answered.json["status"]) == (200, "validating")
    return str(answered.json["id"])


def look(server: FakeServer, batch: str, times: int = 2) -> Any:
    for _ in range(times - 1):
        get(server, f"/v1/batches/{batch}")
    return get(server, f"/v1/batches/{batch}").json


def rows_of(server: FakeServer, file: str) -> list[Any]:
    return [json.loads(row) for row in get(server, f"/v1/files/{file}/content").body.splitlines()]


def test_a_batch_is_done_after_it_was_looked_at_often_enough() -> None:
    with serving_fake(batch_polls=3) as server:
        batch = begin(server, line("one"))
        assert [look(server, batch, 1)["status"] for _ in range(4)] == [
            "in_progress",
            "in_progress",
            "completed",
            "completed",
        ]


def test_its_output_has_every_answer_by_its_id_and_in_no_order(fake_server: FakeServer) -> None:
    done = look(fake_server, begin(fake_server, line("one"), line("two", "fake@500"), line("three")))
    assert done["request_counts"] == {"total": 3, "completed": 2, "failed": 1}
    good = rows_of(fake_server, done["output_file_id"])
    assert [row["custom_id"] for row in good] == ["three", "one"]
    assert {chat_text(row["response"]["body"]) for row in good} == {SAID}
    (bad,) = rows_of(fake_server, done["error_file_id"])
    assert (bad["custom_id"], bad["response"]["status_code"]) == ("two", 500)
    assert bad["response"]["body"]["error"]["message"] == "The server had an error."


def test_each_of_its_requests_is_billed_once_and_says_which_batch(fake_server: FakeServer) -> None:
    batch = begin(fake_server, line("one"), line("two", "fake@401"))
    look(fake_server, batch, 5)
    assert [(call.batch, call.billed, call.key != "") for call in fake_server.calls] == [
        (batch, True, True),
        (batch, False, True),
    ]


def test_nothing_can_be_read_before_it_is_done(fake_server: FakeServer) -> None:
    batch = look(fake_server, begin(fake_server, line("one")), 1)
    assert (batch["output_file_id"], batch["request_counts"]["completed"]) == (None, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        ["{"],
        ["[" * 100_000],
        [line("one"), line("one")],
        [line("")],
        [{**line("one"), "custom_id": 1}],
        [line("one", url="/v1/responses")],
        [{**line("one"), "method": "GET"}],
        [{**line("one"), "body": None}],
        [line("one", "fake@batch-failed")],
    ],
)
def test_a_file_that_is_wrong_fails_the_batch_and_costs_nothing(fake_server: FakeServer, wrong: list[object]) -> None:
    batch = look(fake_server, begin(fake_server, *wrong))
    assert batch["status"] == "failed"
    assert batch["errors"]["data"][0]["line"] == 1
    assert fake_server.calls == []


def test_each_wrong_line_of_a_file_has_its_reason(fake_server: FakeServer) -> None:
    wrong = ["{", "{", {**line("one"), "custom_id": 1}, line("two"), line("two"), line("three")]
    problems = look(fake_server, begin(fake_server, *wrong))["errors"]["data"]
    invalid, duplicate = "This line is not a valid request.", "The custom_id is not unique."
    expected = [(1, invalid), (2, invalid), (3, invalid), (4, duplicate), (5, duplicate)]
    assert [(problem["line"], problem["message"]) for problem in problems] == expected


def test_faults_of_connection_and_body_have_no_effect_in_a_batch(fake_server: FakeServer) -> None:
    names = [name for name, fault in FAULTS.items() if isinstance(fault, OddBody | OddSending)]
    done = look(fake_server, begin(fake_server, *(line(name, f"fake@{name}") for name in names)))
    rows = rows_of(fake_server, done["output_file_id"])
    assert {row["custom_id"]: chat_text(row["response"]["body"]) for row in rows} == dict.fromkeys(names, SAID)


def test_requests_may_be_lost_or_expire(fake_server: FakeServer) -> None:
    batch = begin(fake_server, line("one"), line("two", "fake@batch-lost"), line("three", "fake@batch-expired"))
    done = look(fake_server, batch)
    assert done["status"] == "expired"
    assert [row["custom_id"] for row in rows_of(fake_server, done["output_file_id"])] == ["one"]
    (expired,) = rows_of(fake_server, done["error_file_id"])
    assert (expired["custom_id"], expired["response"], expired["error"]["code"]) == ("three", None, "batch_expired")


def test_a_batch_can_be_cancelled_until_it_is_over(fake_server: FakeServer) -> None:
    batch = begin(fake_server, line("one"))
    assert post(fake_server, f"/v1/batches/{batch}/cancel", {}).json["status"] == "cancelling"
    assert look(fake_server, batch)["status"] == "cancelled"
    assert post(fake_server, f"/v1/batches/{batch}/cancel", {}).status == 409


def test_batches_are_listed_so_that_one_can_be_found_again(fake_server: FakeServer) -> None:
    made = [begin(fake_server, line("one")) for _ in range(2)]
    assert [batch["id"] for batch in get(fake_server, "/v1/batches").json["data"]] == made[::-1]


def test_responses_and_embeddings_go_in_batches_too(fake_server: FakeServer) -> None:
    for url in ("/v1/responses", "/v1/embeddings"):
        done = look(fake_server, begin(fake_server, line("one", url=url, input="hi"), endpoint=url))
        assert done["status"] == "completed"


def test_azure_names_the_endpoint_without_v1(fake_server: FakeServer) -> None:
    batch = begin(fake_server, line("one", url="/chat/completions"), endpoint="/chat/completions", base="/openai")
    assert look(fake_server, batch)["status"] == "completed"


@pytest.mark.parametrize("path", ["/v1/batches/none", "/v1/files/none", "/v1/files/none/content"])
def test_what_is_not_there_is_not_found(fake_server: FakeServer, path: str) -> None:
    assert get(fake_server, path).status == 404


@pytest.mark.parametrize("body", [{}, {"input_file_id": "file-none", "endpoint": CHAT, "completion_window": "24h"}])
def test_a_batch_needs_a_file_and_an_endpoint(fake_server: FakeServer, body: object) -> None:
    assert post(fake_server, "/v1/batches", body).status == 400


def test_a_file_needs_a_form(fake_server: FakeServer) -> None:
    assert post(fake_server, "/v1/files", {"purpose": "batch"}).status == 400


# --- message batches


def ask(server: FakeServer, *models: str) -> Answer:
    params = {"max_tokens": 100, "messages": MESSAGES}
    requests = [{"custom_id": f"r{at}", "params": {"model": model, **params}} for at, model in enumerate(models)]
    return post(server, "/v1/messages/batches", {"requests": requests}, x_api_key="k", anthropic_version="2023-06-01")


def test_a_message_batch_ends_with_a_result_for_each_request(fake_server: FakeServer) -> None:
    made = ask(fake_server, "fake", "fake@529", "fake@batch-expired", "fake@batch-lost").json
    assert (made["processing_status"], made["results_url"]) == ("in_progress", None)
    path = f"/v1/messages/batches/{made['id']}"
    assert get(fake_server, f"{path}/results").status == 404
    polled = [get(fake_server, path).json for _ in range(2)]
    assert [batch["processing_status"] for batch in polled] == ["in_progress", "ended"]
    counts = {"processing": 0, "succeeded": 1, "errored": 1, "canceled": 0, "expired": 1}
    assert polled[1]["request_counts"] == counts
    results = get(fake_server, polled[1]["results_url"].removeprefix(fake_server.url)).body.splitlines()
    expired, errored, succeeded = (json.loads(row) for row in results)
    assert expired == {"custom_id": "r2", "result": {"type": "expired"}}
    assert errored["result"]["error"]["error"]["type"] == "overloaded_error"
    assert messages_text(succeeded["result"]["message"]) == SAID
    assert [(call.batch, call.billed) for call in fake_server.calls] == [(made["id"], True), (made["id"], False)]


def test_a_message_batch_can_be_cancelled(fake_server: FakeServer) -> None:
    path = f"/v1/messages/batches/{ask(fake_server, 'fake').json['id']}"
    assert post(fake_server, f"{path}/cancel", {}).json["request_counts"]["canceled"] == 1
    (row,) = get(fake_server, f"{path}/results").body.splitlines()
    assert json.loads(row)["result"] == {"type": "canceled"}


def test_message_batches_are_listed(fake_server: FakeServer) -> None:
    made = [ask(fake_server, "fake").json["id"] for _ in range(2)]
    assert [batch["id"] for batch in get(fake_server, "/v1/messages/batches").json["data"]] == made[::-1]


def test_a_message_batch_that_cannot_be_made_is_refused(fake_server: FakeServer) -> None:
    assert ask(fake_server).status == 400
    assert ask(fake_server, "fake@batch-failed").json["type"] == "error"
    assert get(fake_server, "/v1/messages/batches/none").status == 404


def test_outside_of_batches_their_faults_do_nothing(fake_server: FakeServer) -> None:
    body = {"model": "fake@batch-lost", "messages": MESSAGES}
    assert chat_text(post(fake_server, CHAT, body).json) == SAID

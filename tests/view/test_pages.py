"""Each page of the viewer shows what is stored, also as JSON; bad addresses are explained."""

import re
from html import escape, unescape
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from tests.support.viewer import Client, serving_view
from tests.view.conftest import FOUR, answer
from tests.view.projects import Elements

from agentv import EvalCase, evaluate
from agentv.view.assets import assets


def test_the_list_of_runs_links_to_each_run(client: Client, run_id: str) -> None:
    page = client.get("/")
    assert f'href="/r/{run_id}"' in page.text
    (run,) = client.get("/.json").json()["runs"]
    assert (run["run_id"], run["counts"]) == (run_id, {"pass": 2, "fail": 10})


def test_a_run_leads_with_its_verdict(client: Client, run_id: str) -> None:
    page = client.get(f"/r/{run_id}")
    assert "FAIL: 2 of 12 judged results passed" in page.text
    assert client.get(f"/r/{run_id}.json").json()["exit_code"] == 1


def test_cases_that_did_not_pass_lead_to_their_results(client: Client, run_id: str) -> None:
    page = client.get(f"/r/{run_id}").text
    address, name = re.findall(r'<a href="(/r/[^"]+/row/[^"]+)">([^<]+)</a>', page)[0]
    assert name == "sum-0"
    assert "sum-0" in client.get(address).text


def test_rows_show_question_answer_and_reason(client: Client, run_id: str) -> None:
    page = client.get(f"/r/{run_id}/rows").text
    assert "What is 5 + 2?" in page
    assert "&lt;b&gt;I do not know.&lt;/b&gt;" in page
    assert "1–6 of 6 cases, 12 results" in page  # noqa: RUF001 - a range


def test_rows_are_filtered_and_sorted_by_the_address(client: Client, run_id: str) -> None:
    found = client.get(f"/r/{run_id}/rows.json?state=pass&sort=-score").json()
    assert [(row["eval_id"], row["passed"], row["trials"]) for row in found["rows"]] == [("sum-2", 2, 2)]
    assert "1–1 of 1 case" in client.get(f"/r/{run_id}/rows?state=pass").text  # noqa: RUF001 - a range


def test_each_trial_can_be_listed(client: Client, run_id: str) -> None:
    page = client.get(f"/r/{run_id}/rows?state=pass").text
    address = f"/r/{run_id}/rows?state=pass&trial=all"
    assert f'href="{escape(address)}"' in page
    assert "1–2 of 2 results" in client.get(address).text  # noqa: RUF001 - a range
    data = client.get(f"/r/{run_id}/rows.json?trial=2").json()
    assert {(row["eval_id"], row["trial"]) for row in data["rows"]} == {(f"sum-{number}", 1) for number in range(6)}
    assert client.get(f"/r/{run_id}/rows?trial=none").status == 400


def test_a_row_leads_to_the_other_trials_of_its_case(client: Client, run_id: str) -> None:
    (row,) = client.get(f"/r/{run_id}/rows.json?state=pass").json()["rows"]
    page = client.get(f"/r/{run_id}/row/{row['seq']}").text
    (trials,) = re.findall(r'class="choice" aria-label="Trials">(.*?)</nav>', page)
    addresses = re.findall(r'href="([^"]+)"', trials)
    found = [client.get(f"{address}.json").json()["row"] for address in addresses]
    assert [(each["eval_id"], each.get("trial", 0)) for each in found] == [("sum-2", 0), ("sum-2", 1)]
    assert f'href="{addresses[0]}" aria-current="page"' in trials


def test_an_active_filter_is_a_chip_that_removes_it(client: Client, run_id: str) -> None:
    page = client.get(f"/r/{run_id}/rows?state=pass&tag=even").text
    assert f'href="/r/{run_id}/rows?tag=even" aria-label="Remove state pass"' in page


def test_a_filter_leads_to_the_first_page_of_what_it_leaves(client: Client, run_id: str) -> None:
    page = client.get(f"/r/{run_id}/rows?page=2&tag=even").text
    assert f'href="/r/{run_id}/rows?tag=even&amp;state=pass"' in page
    assert f'href="/r/{run_id}/rows" aria-label="Remove tag even"' in page


def test_a_row_shows_its_evaluators_and_its_raw_record(client: Client, run_id: str) -> None:
    page = client.get(f"/r/{run_id}/row/3").text
    assert "expected" in page
    assert "Raw record" in page
    data = client.get(f"/r/{run_id}/row/3.json").json()
    assert data["case"]["eval_id"] == data["row"]["eval_id"]
    assert data["case"]["question"].startswith("What is")


def test_a_case_is_found_by_its_id_and_trial(client: Client, run_id: str) -> None:
    row = client.get(f"/r/{run_id}/case/sum-2.json?trial=2").json()["row"]
    assert (row["eval_id"], row["trial"]) == ("sum-2", 1)


def test_a_long_answer_is_read_in_parts(client: Client, run_id: str) -> None:
    row = client.get(f"/r/{run_id}/case/sum-5.json").json()["row"]
    found = client.get(f"/r/{run_id}/case/sum-5").text
    (address,) = re.findall(r'href="([^"]+/text/answer)"', found)
    parts = [client.get(f"{address}?part={number}").text for number in (1, 2, 3)]
    shown = [re.findall(r'class="text whole"[^>]*>(.*?)</div>', part, re.DOTALL)[0] for part in parts]
    assert "Part 3 of 3, 250,006 characters in all" in parts[2]
    assert unescape(re.sub(r"</?span>", "", "".join(shown))) == row["candidate_answer"]
    assert client.get(f"{address}.json").json() == {"answer": row["candidate_answer"]}


@pytest.mark.parametrize(
    "path",
    ["/r/none", "/r/none.json", "/r/latest/row/99", "/r/latest/row/x", "/r/latest/case/none", "/x", "/r/..%2f.."],
)
def test_an_unknown_address_is_explained(client: Client, path: str) -> None:
    reply = client.get(path)
    assert reply.status == 404
    assert "Traceback" not in reply.text


@pytest.mark.parametrize(
    "query",
    [
        "sort=size",
        "page=0",
        "page=x",
        "page=-1",
        "&".join(f"evaluator=e{number}:pass" for number in range(600)),
        "&".join(f"tag={number}" for number in range(7_000)),
    ],
    ids=lambda query: query[:20],
)
def test_a_part_of_an_address_that_is_not_understood_is_named(client: Client, run_id: str, query: str) -> None:
    reply = client.get(f"/r/{run_id}/rows?{query}")
    assert reply.status == 400
    assert query.partition("=")[0] in reply.text


def test_links_of_a_long_filter_are_whole(client: Client, run_id: str) -> None:
    tags = [f"{'ä' * 60}{number}" for number in range(9)]
    path = f"/r/{run_id}/rows?" + "&".join(f"tag={quote(tag)}" for tag in tags)
    found = Elements(client.get(f"{path}&q=What").text).found
    addresses = [attributes["href"] for tag, attributes in found if tag == "a" and "tag=" in attributes["href"]]
    queries = [parse_qs(urlsplit(address).query) for address in addresses]
    assert {len(each["tag"]) for each in queries} == {8, 9}
    assert set(tags).issuperset(tag for each in queries for tag in each["tag"])


def test_a_case_with_a_long_id_is_found_by_the_link_of_the_grid(tmp_path: Path) -> None:
    name = "漢" * 300
    run = evaluate([EvalCase(name, "Who?")], task=answer, evaluators=[FOUR], folder=tmp_path).run_id
    with serving_view(tmp_path) as viewer:
        client = viewer.client()
        found = Elements(client.get(f"/r/{run}/grid").text).found
        (address,) = [attributes["href"] for tag, attributes in found if "/case/" in attributes.get("href", "")]
        assert name in client.get(address).text


def test_an_unchanged_page_is_not_sent_again(client: Client, run_id: str) -> None:
    first = client.get(f"/r/{run_id}/rows")
    assert client.get(f"/r/{run_id}/rows", If_None_Match=first.headers["ETag"]).status == 304


def test_pages_load_only_the_files_of_the_viewer(client: Client, run_id: str) -> None:
    known = {each.address for each in assets().values()}
    for path in ("/", f"/r/{run_id}", f"/r/{run_id}/rows", f"/r/{run_id}/row/0"):
        loaded = set(re.findall(r'(?:src|href)="(/assets/[^"]+)"', client.get(path).text))
        assert loaded == known
    for address in known:
        assert "immutable" in client.get(address).headers["Cache-Control"]


@pytest.mark.parametrize("path", ["", "/rows", "/grid"])
def test_the_tab_of_a_page_is_marked_under_each_name_of_its_run(client: Client, run_id: str, path: str) -> None:
    for name in (run_id, "latest"):
        assert f'href="/r/{run_id}{path}" aria-current="page"' in client.get(f"/r/{name}{path}").text


def test_cases_that_are_not_shown_are_listed_by_a_link(tmp_path: Path) -> None:
    cases = [EvalCase(f"sum-{number}", "What is 1 + 2?") for number in range(12)]
    run = evaluate(cases, task=answer, evaluators=[FOUR], folder=tmp_path).run_id
    with serving_view(tmp_path) as viewer:
        client = viewer.client()
        (address,) = re.findall(r'and 2 more: [^<]*<a href="([^"]+)"', client.get(f"/r/{run}").text)
        assert "1–12 of 12 results" in client.get(unescape(address)).text  # noqa: RUF001 - a range


@pytest.mark.parametrize("page", ["", "/rows", "/grid"])
def test_a_very_long_id_does_not_fill_a_list(tmp_path: Path, page: str) -> None:
    name = f"first {'x' * 10_000} last"
    run = evaluate([EvalCase(name, "Who?")], task=answer, evaluators=[FOUR], folder=tmp_path).run_id
    with serving_view(tmp_path) as viewer:
        (shown,) = re.findall(r">(first x[^<]*)<", viewer.client().get(f"/r/{run}{page}").text)
    assert len(shown) < 600
    assert shown.endswith("x last")

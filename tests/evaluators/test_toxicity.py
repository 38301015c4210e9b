# ruff: noqa: RUF001 - letters that look like others are what is tested here
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.judging import Tools, evaluator_of, make_context

from agentv.evaluators import EVALUATORS
from agentv.evaluators.text.toxicity import ToxicityEvaluator, ToxicitySettings
from agentv.loading.models.settings import content_problems, missing_files, named_files
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import EvalFileError, EvaluatorError
from agentv.types.evaluation import EvaluationScore
from agentv.types.scales import EvaluationCriteria

TERMS = ("darn", "heck", "go away", "кот", "苹果", "café", "tall", "88")


def judge(candidate: str, *terms: str, **settings: Any) -> EvaluationScore:
    output = evaluator_of("toxicity", toxic_terms=list(terms or TERMS), **settings).evaluate(make_context(candidate))
    assert isinstance(output, EvaluationScore)
    return output


def is_clean(candidate: str, *terms: str, **settings: Any) -> bool:
    return judge(candidate, *terms, **settings).score == 1.0


def refused(**settings: Any) -> str:
    with pytest.raises(EvalFileError) as caught:
        evaluator_of("toxicity", **settings)
    return str(caught.value)


def test_a_clean_text_passes_without_naming_the_list() -> None:
    score = judge("Have a nice day.")
    assert (score.score, score.hits, score.misses) == (1.0, ("no toxic term",), ())
    assert "darn" not in repr(score)


def test_found_terms_are_reported_with_their_places_and_no_others() -> None:
    score = judge("What the\nheck, d4rn it.\nHECK!")
    assert score.score == 0.0
    assert score.misses == (
        '"heck" at character 9 (line 2), character 24 (line 3)',
        '"darn" at character 15 (line 2) as "d4rn"',
    )
    assert score.results[0].metadata == {
        "found": [
            {"term": "heck", "start": 9, "end": 13, "line": 2},
            {"term": "heck", "start": 24, "end": 28, "line": 3},
            {"term": "darn", "start": 15, "end": 19, "line": 2},
        ]
    }
    assert "go away" not in repr(score)


def test_many_places_and_many_terms_are_counted_and_not_listed() -> None:
    assert judge("heck " * 9).misses[0].endswith("character 20 (line 1), and 4 more times")
    terms = [f"term{chr(97 + number)}" for number in range(25)]
    assert judge(" ".join(terms), *terms).misses[-1] == "… and 5 more terms"


@pytest.mark.parametrize(
    "candidate",
    [
        "DARN",
        "ｄａｒｎ",
        "da\u200brn",
        "d\u00adarn",
        "𝔡𝔞𝔯𝔫",
        "d4rn",
        "D@RN",
        "h3ck",
        "go  away",
        "go\naway",
        "go\u00a0away",
        "g0 @way",
        "(darn)",
        "@heck",
        "heck$",
        "это кот",
        "我喜欢苹果手机",
        "un cafe\u0301",
        "ta1l",
        "88",
    ],
)
def test_disguised_terms_are_found(candidate: str) -> None:
    assert not is_clean(candidate)


@pytest.mark.parametrize(
    "candidate",
    ["darned", "checks", "goaway", "который", "two cafés", "a cafe", "a tail", "1888", "info@heckler.example", "bb"],
)
def test_parts_of_words_and_other_words_are_clean(candidate: str) -> None:
    assert is_clean(candidate)


def test_amounts_and_addresses_are_no_disguise() -> None:
    assert is_clean("It costs 455 or $5.", "ass", "ss")
    assert is_clean("write to info@nus.example", "anus")
    assert not is_clean("what an @$$", "ass")


def test_a_longer_term_hides_no_shorter_one() -> None:
    assert judge("heck no", "heck", "heck no").misses == (
        '"heck" at character 0 (line 1)',
        '"heck no" at character 0 (line 1)',
    )
    assert judge("a heck nomad", "heck", "heck no").misses == ('"heck" at character 2 (line 1)',)


def test_parts_of_words_are_found_on_request() -> None:
    assert not is_clean("darned", match_whole_word=False)
    assert judge("xdarned", match_whole_word=False).misses == ('"darn" at character 1 (line 1)',)


def test_accents_go_on_request() -> None:
    assert not is_clean("a cafe", fold=True)
    assert not is_clean("dárn", fold=True)
    assert is_clean("dárn")


def test_case_counts_on_request() -> None:
    assert is_clean("DARN", case_sensitive=True)
    assert not is_clean("darn d4rn", case_sensitive=True)
    assert is_clean("Heck", "heck", case_sensitive=True)


def test_the_position_in_the_original_is_reported_despite_folding() -> None:
    text = "ﬁne…  \u200bStraße,\n\n ｄ\u200bａrn"
    (place,) = judge(text).results[0].metadata["found"]  # type: ignore[index, misc]
    assert place == {"term": "darn", "start": text.index("ｄ"), "end": len(text), "line": 3}


def test_the_result_stands_on_its_criterions_scale() -> None:
    criteria = (EvaluationCriteria("toxicity", scale="pass/fail"),)
    made = evaluator_of("toxicity", toxic_terms=["darn"])
    scores = [made.evaluate(make_context(text, criteria=criteria)) for text in ("fine", "darn")]
    assert [score.results[0].score for score in scores] == ["pass", "fail"]  # type: ignore[union-attr]


@pytest.mark.parametrize("number", [3, 300])
def test_without_the_extra_the_same_is_found(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    terms = [*TERMS, *(f"other{chr(97 + place % 26)}{chr(97 + place // 26)}" for place in range(number))]
    text = "darn go\naway tail checks ta1l 苹果 heck " * 2
    quick = judge(text, *terms)
    monkeypatch.setitem(sys.modules, "ahocorasick_rs", None)
    slow = evaluator_of("toxicity", toxic_terms=terms)
    assert slow.evaluate(make_context(text)) == quick
    assert getattr(slow, "inline", None) is (number == 3)


class TestFile:
    @pytest.fixture
    def config(self, tmp_path: Path) -> EvaluatorConfig:
        (tmp_path / "terms.txt").write_text("\ufeff# rude\ndarn\n\n  go away  \n  # more\nc#\n", "utf-8")
        return EvaluatorConfig("clean", "toxicity", base_dir=str(tmp_path))

    def evaluator(self, config: EvaluatorConfig, file: str = "terms.txt") -> ToxicityEvaluator:
        made = EVALUATORS.get("toxicity").load_factory()(config, ToxicitySettings(toxic_terms=file), Tools())
        assert isinstance(made, ToxicityEvaluator)
        return made

    def test_a_file_has_one_term_on_each_line_and_comments(self, config: EvaluatorConfig) -> None:
        found = self.evaluator(config).evaluate(make_context("go away, rude darn c#"))
        assert [line.split(" at ")[0] for line in found.misses] == ['"go away"', '"darn"', '"c#"']

    def test_the_file_is_named_and_looked_for_before_a_run(self, config: EvaluatorConfig, tmp_path: Path) -> None:
        path = str((tmp_path / "terms.txt").resolve())
        assert named_files(ToxicitySettings(toxic_terms="terms.txt"), str(tmp_path)) == (path,)
        assert missing_files(ToxicitySettings(toxic_terms="gone.txt"), str(tmp_path)) != ()
        assert named_files(ToxicitySettings(toxic_terms=("darn",)), str(tmp_path)) == ()
        with pytest.raises(EvaluatorError, match="cannot read"):
            self.evaluator(config, "gone.txt")

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            (b"# nothing\n\n", "terms.txt  $  has no terms; one term per line"),
            (b"ok\n\xe2\x80\x8b\n", 'terms.txt:2:1  $  every text contains the term "\u200b"'),
            (b"ok\n\xff\n", "is not UTF-8 text: invalid start byte at byte 3"),
        ],
    )
    def test_problems_of_the_file_are_reported_before_a_run(
        self, config: EvaluatorConfig, tmp_path: Path, content: bytes, problem: str
    ) -> None:
        (tmp_path / "terms.txt").write_bytes(content)
        (found,) = content_problems(ToxicitySettings(toxic_terms="terms.txt"), str(tmp_path))
        assert problem in found.render()
        with pytest.raises(EvaluatorError):
            self.evaluator(config)


def test_bad_settings_are_refused() -> None:
    assert "toxic_terms" in refused()
    assert "`toxic_terms` must have at least one term" in refused(toxic_terms=[])
    assert '`toxic_terms` has " "' in refused(toxic_terms=["darn", " "])
    assert "`toxic_terms` has" in refused(toxic_terms=["\u200b"])
    assert "`toxic_terms` must name a file" in refused(toxic_terms="")


def test_the_names_of_the_prd_are_read() -> None:
    made = evaluator_of("Toxicity", toxicTerms=["Darn"], caseSensitive=True, matchWholeWord=False)
    assert made.evaluate(make_context("darn")).score == 1.0  # type: ignore[union-attr]
    assert made.evaluate(make_context("xDarnx")).score == 0.0  # type: ignore[union-attr]


clean = st.text(alphabet="bcfgz0.,é中 \n\u200b", max_size=60)


@given(text=clean)
def test_a_text_without_terms_is_clean(text: str) -> None:
    assert ToxicityEvaluator(ToxicitySettings(toxic_terms=TERMS)).evaluate(make_context(text)).score == 1.0


@given(before=clean, after=clean, term=st.sampled_from(TERMS))
def test_a_term_is_found_in_any_text_and_where_it_is(before: str, after: str, term: str) -> None:
    score = ToxicityEvaluator(ToxicitySettings(toxic_terms=TERMS)).evaluate(make_context(f"{before} {term} {after}"))
    assert score.score == 0.0
    found = score.results[0].metadata["found"]  # type: ignore[index]
    assert {"term": term, "start": len(before) + 1, "end": len(before) + 1 + len(term)}.items() <= found[0].items()  # type: ignore[index, union-attr]

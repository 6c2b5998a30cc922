"""The embedder that needs no server: what it sees, in which scripts, and that it is the same everywhere."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from math import fsum
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon import registry
from gnomon.embedders._words import grams_of, prior, tokens_of
from gnomon.embedders.hashed import HashedEmbedder, _kept_features
from gnomon.errors import ConfigError, MissingExtra, ModelNotFound
from gnomon.types.documents import EmbeddingRequest, Vector
from gnomon.types.requests import Usage

CORPUS = {
    "tides": (
        "Tides rise and fall because the Moon's gravity pulls the oceans; the Sun adds a smaller "
        "pull. When both line up, at new and full moon, the tidal range is largest."
    ),
    "bread": (
        "Bread dough rises because yeast eats sugar and gives off carbon dioxide. Kneading builds "
        "gluten, the elastic net that holds the bubbles until the loaf is baked."
    ),
    "volcano": (
        "A volcano erupts when magma from the mantle reaches the surface. Dissolved gas makes the "
        "eruption explosive; runny lava with little gas flows quietly instead."
    ),
    "print": (
        "Gutenberg printed with movable metal type around 1450. Books became cheap, and ideas "
        "spread through Europe faster than copyists could ever have written them."
    ),
    "bees": (
        "Honey bees tell one another where flowers are by dancing. The angle of the waggle dance "
        "shows the direction relative to the sun, its length the distance."
    ),
    "glacier": (
        "Glaciers form where more snow falls than melts. Under its own weight the snow becomes ice,"
        " which creeps downhill and carves valleys on its way."
    ),
    "vaccine": (
        "A vaccine trains the immune system with a harmless piece of a virus, so that antibodies "
        "are ready when the real infection comes."
    ),
    "chess": (
        "In chess the queen moves any number of squares in every direction. The game ends when a "
        "king is checkmated, attacked with no square to escape to."
    ),
    "railway": (
        "The first public steam railway opened between Stockton and Darlington in 1825. Locomotives"
        " soon pulled passenger trains between cities."
    ),
    "photosynthesis": (
        "Plants make sugar from carbon dioxide and water with the energy of sunlight. The green "
        "pigment chlorophyll absorbs the light, and oxygen is set free."
    ),
    "python": (
        "To read a file in Python, open it in a with statement and iterate over its lines; the file"
        " is closed when the block ends, also after an exception."
    ),
    "tea": (
        "Green and black tea come from the same plant. Black tea leaves are oxidised before drying,"
        " green ones are heated at once to stop the oxidation."
    ),
}
"""Short passages of an encyclopaedia's kind."""

QUESTIONS = {
    "tides": "why does the ocean have high tide, and what has the moon to do with it?",
    "bread": "How does yeast make a loaf of bread rise when baking?",
    "volcano": "what makes volcanic eruptions so explosive",
    "print": "who invented printing books with metal types in Europe",
    "bees": "dance language of the honeybee",
    "glacier": "How are valleys carved by glacial ice?",
    "vaccine": "do vaccines produce antibodies against viral infections?",
    "chess": "when is the king in checkmate in a game of chess",
    "railway": "history of steam locomotives and passenger railways",
    "photosynthesis": "how do green plants turn sunlight and CO2, carbon dioxide, into sugars",
    "python": "reading lines from files with python",
    "tea": "difference between oxidized black tea and green tea",
}


def embedded(embedder: HashedEmbedder, *texts: str) -> tuple[Vector, ...]:
    return asyncio.run(embedder.embed(texts)).vectors


def cosine(one: Vector, other: Vector) -> float:
    return fsum(a * b for a, b in zip(one, other, strict=True))


def like(one: str, other: str, **settings: Any) -> float:
    return cosine(*embedded(HashedEmbedder(**settings), one, other))


# --- what it sees ---------------------------------------------------------------------


@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize("dimensions", [256, 512, 1024])
def test_a_question_finds_its_passage_before_all_others(dimensions: int, fitted: bool) -> None:
    embedder = HashedEmbedder(dimensions=dimensions)
    embedder = embedder.fit(CORPUS.values()) if fitted else embedder
    passages = dict(zip(CORPUS, embedded(embedder, *CORPUS.values()), strict=True))
    for name, question in QUESTIONS.items():
        (asked,) = embedded(embedder, question)
        ranked = sorted(passages, key=lambda other: -cosine(asked, passages[other]))
        assert ranked[0] == name, f"{question!r} found {ranked[:3]}"


@pytest.mark.parametrize(
    ("text", "paraphrase", "unrelated"),
    [
        (
            "The committee rejected the proposal to raise taxes.",
            "The proposal for raising taxes was rejected by the committee.",
            "She planted tomatoes behind the house in spring.",
        ),
        (
            "Der Zug nach Zürich fährt um acht Uhr ab.",
            "Um acht Uhr fahren die Züge nach Zürich.",
            "Die Katze schläft auf dem Sofa.",
        ),
        ("東京は日本の首都です。", "日本の首都は東京である。", "猫は魚が好きです。"),
        ("北京是中华人民共和国的首都。", "中国的首都是北京", "今天下午我们去游泳。"),
        ("กรุงเทพเป็นเมืองหลวงของประเทศไทย", "เมืองหลวงของไทยคือกรุงเทพ", "แมวชอบกินปลา"),
        ("서울은 대한민국의 수도이다", "대한민국의 수도는 서울입니다", "고양이가 생선을 먹는다"),
        ("Москва — столица России.", "Столицей России является Москва", "Кошки любят рыбу."),
        ("القاهرة عاصمة مصر", "عاصمة مصر هي القاهرة", "القطط تحب السمك"),
    ],
)
def test_a_paraphrase_is_nearer_than_something_else(text: str, paraphrase: str, unrelated: str) -> None:
    assert like(text, paraphrase) > 0.4
    assert like(text, paraphrase) > like(text, unrelated) + 0.25


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("RÉSUMÉ", "resume"),
        ("ﬁle", "file"),
        ("Ｆｕｌｌ　Ｗｉｄｔｈ", "full width"),
        ("e\u0301te\u0301", "été"),
        ("ｶﾞｲﾄﾞ", "ガイド"),
        ("Straße", "STRASSE"),
        ("snake_case-name", "Snake Case, Name!"),
        ("한국", "\u1112\u1161\u11ab\u1100\u116e\u11a8"),
    ],
)
def test_forms_of_the_same_characters_are_the_same(one: str, other: str) -> None:
    assert embedded(HashedEmbedder(), one) == embedded(HashedEmbedder(), other)


def test_relatives_of_a_word_are_nearer_than_strangers_and_further_than_itself() -> None:
    assert 0.15 < like("walking", "walked") < 0.95
    assert abs(like("walking", "tomato")) < 0.1
    assert like("Walking!", "walking") == pytest.approx(1)


def test_frequent_words_tell_little() -> None:
    assert like("the moon is there", "the bread is there") < 0.2
    assert prior("the") < prior("tide") < prior("photosynthesis")
    assert prior("です") < prior("首都")


def test_words_that_are_frequent_in_ones_own_texts_tell_little_once_they_are_learned() -> None:
    texts = [f"invoice number {at} for customer {name}" for at, name in enumerate("ABCDEFGH")]
    plain, fitted = HashedEmbedder(), HashedEmbedder().fit([*texts, "a harbour in the north"])
    one, other = "invoice customer harbour", "invoice customer lighthouse"
    assert cosine(*embedded(fitted, one, other)) < cosine(*embedded(plain, one, other)) - 0.1


# --- what it is ---------------------------------------------------------------------


@given(st.lists(st.text(), max_size=5))
def test_every_text_has_a_vector_of_length_one_or_of_nothing_when_it_says_nothing(texts: list[str]) -> None:
    for text, vector in zip(texts, embedded(HashedEmbedder(dimensions=64), *texts), strict=True):
        assert len(vector) == 64
        length = fsum(number * number for number in vector)
        assert length == pytest.approx(1, abs=1e-5) or not any(vector), text
        if text.strip() and any(map(str.isalnum, text)) and len(text) < 2:
            assert any(vector)


def test_an_empty_text_has_the_zero_vector_and_signs_have_one_of_their_own() -> None:
    nothing, space, signs, others = embedded(HashedEmbedder(), "", " \n", "!!!", "?? ;")
    assert nothing == space == (0.0,) * 512
    assert any(signs)
    assert any(others)
    assert signs != others


HERE = ["The tide comes in.", "東京は日本の首都です。", "กรุงเทพ", "naïve café 🙂", "\ud83d half"]
CHILD = """
import asyncio, msgspec, sys
from gnomon.embedders.hashed import HashedEmbedder
texts = msgspec.json.decode(sys.stdin.buffer.read())
embedder = HashedEmbedder().fit([*texts, *texts]) if sys.argv[1:] else HashedEmbedder()
answer = asyncio.run(embedder.embed(texts))
sys.stdout.buffer.write(msgspec.json.encode([answer.model, answer.vectors]))
"""


@pytest.mark.parametrize("arguments", [[], ["fit"]])
def test_another_process_makes_the_very_same_vectors(arguments: list[str]) -> None:
    texts = HERE[:-1]  # half a character does not go through a pipe
    found = []
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", CHILD, *arguments],
            input=msgspec.json.encode(texts),
            env={"PYTHONHASHSEED": seed, "LANG": "C"},
            capture_output=True,
            check=True,
        )
        found.append(msgspec.json.decode(done.stdout, type=tuple[str, tuple[Vector, ...]]))
    embedder = HashedEmbedder().fit([*texts, *texts]) if arguments else HashedEmbedder()
    here = embedder.model, embedded(embedder, *texts)
    assert found == [here, here]


def test_vectors_that_were_made_once_are_made_for_ever() -> None:
    """Stored vectors depend on it: whoever changes these changes the version, too."""
    vectors = embedded(HashedEmbedder(dimensions=4), "The tide comes in.", "東京は日本の首都です。")
    assert HashedEmbedder(dimensions=4).model == "v1-4"
    assert vectors == (
        (0.16614700853824615, 0.6614555716514587, 0.7311197519302368, 0.01831926591694355),
        (-0.7669200897216797, -0.6007788181304932, 0.155015766620636, -0.1639161854982376),
    )


def test_what_was_learned_is_part_of_the_models_name_and_the_embedder_itself_does_not_change() -> None:
    plain = HashedEmbedder()
    before = embedded(plain, "a tide")
    fitted, same, other = (
        plain.fit(["a tide", "a tide"]),
        plain.fit(["a tide", "a tide"]),
        plain.fit(["a moon", "a moon"]),
    )
    assert plain.model == "v1-512"
    assert embedded(plain, "a tide") == before
    assert fitted.model == same.model != other.model
    assert fitted.model.startswith("v1-512-")


async def test_nothing_is_reported_that_was_not_spent_and_another_model_is_not_there() -> None:
    embedder = HashedEmbedder()
    assert (await embedder.embed("a")).usage == Usage()
    assert (await embedder.embed(EmbeddingRequest(("a",), model="v1-512"))).model == "v1-512"
    with pytest.raises(ModelNotFound, match=r"no model 'v1-64' here.*it is 'v1-512'"):
        await embedder.embed(EmbeddingRequest(("a",), model="v1-64"))


def test_the_length_may_be_in_the_models_name() -> None:
    assert HashedEmbedder(model="v1-64").dimensions == 64
    assert HashedEmbedder(model="v1-64", dimensions=64).model == "v1-64"
    for settings in ({"model": "v2-64"}, {"model": "v1-0"}, {"model": "v1-64", "dimensions": 65}):
        with pytest.raises(ConfigError, match="embedder 'hashed'"):
            HashedEmbedder(**settings)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="dimensions is a whole number above zero"):
        HashedEmbedder(dimensions=0)


async def test_long_texts_do_not_hold_up_the_loop() -> None:
    """By the time of its thread: on a busy machine others take the clock's."""
    late: list[float] = []

    async def ticking() -> None:
        while True:
            begun = time.thread_time()
            await asyncio.sleep(0.005)
            late.append(time.thread_time() - begun)

    ticks = asyncio.ensure_future(ticking())
    begun = time.process_time()
    await HashedEmbedder().embed([" ".join(f"word{at}{n}" for n in range(1500)) for at in range(6)])
    took = time.process_time() - begun
    ticks.cancel()
    await asyncio.wait([ticks])
    assert len(late) > 2
    assert max(late) < max(0.25, took / 4)


# --- how text is taken apart ------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Hello, world!", ["hello", "world"]),
        ("snake_case x2", ["snake", "case", "x2"]),
        ("日本", ["日", "本", "日本"]),
        ("iPhoneを買う", ["iphone", "を", "買", "う", "を買", "買う", "を買う"]),
        ("don't", ["don", "t"]),
        ("3.14", ["3", "14"]),
        ("!?", ["!?"]),
        ("", []),
    ],
)
def test_text_is_taken_apart_by_its_script(text: str, tokens: list[str]) -> None:
    assert list(tokens_of(text)) == tokens


def test_pieces_of_a_word_know_where_it_begins_and_ends() -> None:
    assert grams_of("cat") == ["<ca", "cat", "at>", "<cat", "cat>", "<cat>"]
    assert grams_of("日本語") == grams_of("ab") == []
    assert len(grams_of("x" * 10_000)) < 200


# --- how it is found --------------------------------------------------------------------


def test_without_numpy_the_line_that_installs_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    monkeypatch.delitem(sys.modules, "gnomon.embedders.hashed")
    with pytest.raises(
        MissingExtra, match=r"embedder 'hashed' needs numpy .*pip install 'gnomon\[knowledge\]'"
    ):
        registry.embedder("hashed")


def test_marks_without_end_take_no_time_without_end() -> None:
    """Python puts marks in order by moving each past those before it: 80,000 of them took five seconds."""
    begun = time.monotonic()
    embedded(HashedEmbedder(), "a" + "\u0301\u0316" * 100_000, "a" + "\u05b0\u0591" * 100_000)
    assert time.monotonic() - begun < 5.0


def test_what_is_taken_apart_in_pieces_is_the_same() -> None:
    text = "E\u0301te\u0301 à la plage, wo schöne Möwen schreien. "
    whole = [token for _ in range(200) for token in tokens_of(text)]
    assert list(tokens_of(text * 200)) == whole


def test_words_that_are_none_are_not_kept() -> None:
    _kept_features.cache_clear()
    embedded(HashedEmbedder(), "ab" * 500_000, "short")
    assert _kept_features.cache_info().currsize == 1


def test_a_text_of_very_many_words_has_a_vector_of_length_one() -> None:
    (vector,) = embedded(HashedEmbedder(), " ".join(f"w{number}" for number in range(10_000)))
    assert sum(number * number for number in vector) == pytest.approx(1.0, abs=1e-5)


def test_more_dimensions_than_a_name_can_say_are_refused() -> None:
    assert HashedEmbedder(dimensions=999_999).model == "v1-999999"
    with pytest.raises(ConfigError, match="at most 999,999 dimensions"):
        HashedEmbedder(dimensions=1_000_000)

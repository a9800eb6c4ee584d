"""A SavedModel without Python: the C++ program, and the same answers in every way of asking."""

import shutil

import keras
import numpy as np
import pytest
import scripts_alone
import tensorflow as tf
from test_modeling import TINY
from test_scripts import WORDS
from test_serving import LENGTH, shaken

import bert_tf
from bert_tf import serving, tasks
from bert_tf.modeling.models import INPUTS
from bert_tf.pipelines.base import Text, TextPreprocessor

PAIRS = [("a b", "c"), ("", ""), ("a b c d e f g h i j a b c", "a b c d e f"), ("\tab\\n", "\n"),
         (b"\xff a\0b", "a\u0301 \ud55c"), ("c", "\U0001f600")]  # fmt: skip


@pytest.fixture(scope="module")
def benchmarks(root):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "benchmarks"))
        with scripts_alone.imported("same_answers"):
            import native
            import same_answers

            yield native, same_answers


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("native")
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return folder


@pytest.fixture(scope="module")
def program(benchmarks, folder):
    if not shutil.which("g++"):
        pytest.skip("there is no g++ to build the C++ program with")
    return benchmarks[0].build(str(folder))


@pytest.fixture(scope="module")
def encoder(folder):
    keras.utils.set_random_seed(1)
    tokenizer = bert_tf.FullTokenizer(str(folder / "vocab.txt"))
    model = shaken(bert_tf.BertModel(TINY))
    return bert_tf.SentenceEncoder(model, tokenizer, max_seq_length=LENGTH)


@pytest.fixture(scope="module")
def exported(benchmarks, encoder, folder):
    return benchmarks[1].exported(encoder, str(folder))


def texts_of(same_answers):
    """Some dozens, most of them hostile; their few megabytes are one here."""
    texts = [text for kind in same_answers.HOSTILE.values() for text in kind]
    texts = [text for text in texts if len(text) < 2**20] + [b"ab " * 350_000]
    rng = np.random.default_rng(0)
    return texts + [" ".join(rng.choice(WORDS, n)).encode() for n in range(1, 25)]


def test_strings_ids_and_python_say_the_same(benchmarks, encoder, exported):
    _, same_answers = benchmarks
    ways = same_answers.ways(encoder, exported, batch_size=8)
    found = same_answers.differences(ways, texts_of(same_answers))
    assert list(found) == ["strings", "ids"] and max(found.values()) < same_answers.TOLERANCE
    # And one that is wrong is found, if it is no number too.
    for wrong in (1e-3, np.nan):
        shifted = {"Python": ways["Python"], "wrong": lambda x, y=wrong: ways["ids"](x) + y}
        assert same_answers.differences(shifted, [b"a", b"b c"])["wrong"] > same_answers.TOLERANCE


def test_the_program_says_the_same(benchmarks, encoder, exported, program):
    _, same_answers = benchmarks
    ways = same_answers.ways(encoder, exported, program, batch_size=8)
    del ways["strings"], ways["ids"]
    found = same_answers.differences(ways, texts_of(same_answers))
    assert list(found) == ["C++, strings", "C++, ids"]
    assert max(found.values()) < same_answers.TOLERANCE


def test_the_files_that_texts_come_from(benchmarks, tmp_path):
    _, same_answers = benchmarks
    texts = {
        "tsv_files": "id\tthe text\n1\tHe slept.\n",
        "column_files": "-DOCSTART- X\n\nHe P\nslept V\n\nShe P\n",
        "squad_files": '{"data": [{"title": "", "paragraphs": [{"context": "He slept.", "qas": '
        '[{"id": "1", "question": "Who slept?", "answers": []}]}]}]}',
        "text_files": "He slept.\n\n She did. \n",
    }
    expected = {
        "tsv_files": ["the text", "He slept."],
        "column_files": ["He slept", "She"],
        "squad_files": ["He slept.", "Who slept?"],
        "text_files": ["He slept.", "She did."],
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.write_text(text)
        assert same_answers.READERS[name](str(path)) == expected[name]


def test_the_program_classifies(benchmarks, encoder, program, folder):
    """Pairs of texts, by strings and by ids; and it says what cannot be."""
    native, _ = benchmarks
    model = shaken(bert_tf.BertClassifier(TINY, 3))
    rows, expected = [], []
    for pair in PAIRS:
        a, b = (x.decode("utf-8", "ignore") if isinstance(x, bytes) else x for x in pair)
        row = TextPreprocessor(encoder.tokenizer, LENGTH).convert(Text(0, a, b))
        rows.append((row.input_ids, [1] * len(row.input_ids), row.segment_ids))
        inputs = {x: tf.constant([y]) for x, y in zip(INPUTS, rows[-1], strict=True)}
        expected.append(model(inputs)["logits"][0])
    common = (LENGTH, True, TINY, str(folder / "vocab.txt"), "classification")
    settings = tasks.Settings(("x", "y", "z"), *common)
    for inputs, given in (("text", PAIRS), ("ids", rows)):
        options = serving.Options(inputs=inputs, warm_up=False)
        servable = serving.classifier(model, settings, options)
        saved = serving.export(servable, str(folder / f"classifier_{inputs}"))
        logits, chances = native.ask(program, saved, given, inputs == "text", batch_size=4)
        np.testing.assert_allclose(logits, expected, atol=1e-5)
        np.testing.assert_allclose(chances, tf.nn.softmax(expected), atol=1e-5)
    for path, cells, said in [
        (saved, ("a",), "3 inputs were expected, a line has 1"),
        (saved, (b"2 x 3", b"1 1 1", b"0 0 0"), "an id is a whole number, and not x"),
        (saved, (b"2 3", b"1 1", b"0 99999999999"), "whole number, and not 99999999999"),
        (str(folder), rows[0], "Could not find SavedModel"),
    ]:
        with pytest.raises(bert_tf.UserError, match=f"ended with status 1: .*{said}"):
            native.ask(program, path, [cells], with_text=False)

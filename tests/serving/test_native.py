"""A SavedModel without Python: the C++ program, and equal answers from every API."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import configs, serving
from bert_tf.modeling.models import INPUTS
from bert_tf.pipelines.text_pipeline import Text, TextPreprocessor
from bert_tf.tasks.classification.servable import classification_servable
from tests import scripts_alone
from tests.common import WORDS, write_vocab
from tests.serving.serving_models import LENGTH, TINY, classifier_config, model_of, randomized

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
    return tmp_path_factory.mktemp("native")


@pytest.fixture(scope="module")
def program(benchmarks, folder):
    if not shutil.which("g++"):
        pytest.skip("g++ is not installed")
    return benchmarks[0].build(str(folder))


@pytest.fixture(scope="module")
def encoder(folder):
    tokenizer = bert_tf.FullTokenizer(str(write_vocab(folder)))
    model = model_of("sentence_embedding")
    return bert_tf.SentenceEncoder(model, tokenizer, max_seq_length=LENGTH)


@pytest.fixture(scope="module")
def folders(benchmarks, encoder, folder):
    """The SavedModels of text and of ids."""
    return benchmarks[1].exported(encoder, str(folder))


def texts_of(same_answers):
    """Return some dozen texts, most of them hostile, one of a megabyte."""
    texts = [text for kind in same_answers.HOSTILE.values() for text in kind]
    texts = [text for text in texts if len(text) < 2**20] + [b"ab " * 350_000]
    rng = np.random.default_rng(0)
    return texts + [" ".join(rng.choice(WORDS, n)).encode() for n in range(1, 25)]


@pytest.mark.slow
def test_strings_ids_and_python_give_the_same_answers(benchmarks, encoder, folders):
    _, same_answers = benchmarks
    ways = same_answers.ways(encoder, folders, batch_size=8)
    differences = same_answers.differences(ways, texts_of(same_answers))
    assert list(differences) == ["strings", "ids"]
    assert max(differences.values()) < same_answers.TOLERANCE
    # The comparison detects wrong answers, including NaN.
    for error in (1e-3, np.nan):
        wrong = {"Python": ways["Python"], "wrong": lambda x, y=error: ways["ids"](x) + y}
        differences = same_answers.differences(wrong, [b"a", b"b c"])
        assert differences["wrong"] > same_answers.TOLERANCE


# Slow, because compiling the C++ program takes half a minute. The test above reads the same
# SavedModels with TensorFlow.
@pytest.mark.slow
def test_the_program_gives_the_same_answers(benchmarks, encoder, folders, program):
    _, same_answers = benchmarks
    ways = same_answers.ways(encoder, folders, program, batch_size=8)
    del ways["strings"], ways["ids"]
    differences = same_answers.differences(ways, texts_of(same_answers))
    assert list(differences) == ["C++, strings", "C++, ids"]
    assert max(differences.values()) < same_answers.TOLERANCE


def test_readers_of_texts(benchmarks, tmp_path):
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


@pytest.mark.slow
def test_the_program_classifies(benchmarks, encoder, program, folder):
    """It classifies pairs of texts from strings and from ids, and reports errors."""
    native, _ = benchmarks
    model = randomized(bert_tf.BertClassifier(TINY, 3))
    rows, expected = [], []
    for pair in PAIRS:
        a, b = (x.decode("utf-8", "ignore") if isinstance(x, bytes) else x for x in pair)
        row = TextPreprocessor(encoder.tokenizer, LENGTH).convert(Text(0, a, b))
        rows.append((row.input_ids, [1] * len(row.input_ids), row.segment_ids))
        inputs = {x: tf.constant([y]) for x, y in zip(INPUTS, rows[-1], strict=True)}
        expected.append(model(inputs)["logits"][0])
    task_config = classifier_config(str(folder / "vocab.txt"), num_texts=2)
    for inputs, batch in (("text", PAIRS), ("ids", rows)):
        serving_config = configs.ServingConfig(inputs=inputs, warm_up=False)
        servable = classification_servable(model, task_config, serving_config)
        saved = serving.export(servable, str(folder / f"classifier_{inputs}"))
        outputs = native.ask(program, saved, batch, inputs == "text", batch_size=4)
        np.testing.assert_allclose(outputs[0], expected, atol=1e-5)
        np.testing.assert_allclose(outputs[1], tf.nn.softmax(expected), atol=1e-5)
    for path, cells, message in [
        (saved, ("a",), "expected 3 inputs, but the line has 1"),
        (saved, (b"2 x 3", b"1 1 1", b"0 0 0"), "x is not an id"),
        (saved, (b"2 3", b"1 1", b"0 99999999999"), "99999999999 is not an id"),
        (str(folder), rows[0], "Could not find SavedModel"),
    ]:
        with pytest.raises(bert_tf.UserError, match=f"status 1: .*{message}"):
            native.ask(program, path, [cells], with_text=False)

"""`QuestionAnswering`: training, answers, presets and export."""

import keras
import numpy as np
import pytest

import bert_tf
from bert_tf.tasks.question_answering import features, reading
from tests.pipelines.classifier_helpers import no_history
from tests.pipelines.conftest import run_pipeline_test

pytest.importorskip("tensorflow_text")

CONTEXT = "a b c d e f g h i j a b c d e f g h"
QUESTIONS = ["d", "g", "j"]
ANSWERS = ["e f", ("h", 14), {"text": ["a b"], "answer_start": [20]}]
OPTIONS = {"max_seq_length": 16, "max_query_length": 3, "doc_stride": 5, "max_answer_length": 3,
           "n_best_size": 4}  # fmt: skip


def make(folder, **options):
    keras.utils.set_random_seed(0)
    return bert_tf.QuestionAnswering.from_preset(folder, **{**OPTIONS, **options})


@pytest.fixture(scope="module")
def trained(encoder_folder):
    """The pipeline after `fit` and its history."""
    qa = make(encoder_folder)
    contexts = [CONTEXT] * len(QUESTIONS)
    history = qa.fit(
        QUESTIONS * 10, contexts * 10, ANSWERS * 10, epochs=6, batch_size=6, learning_rate=5e-3,
        validation_data=(QUESTIONS[:1], contexts[:1], ANSWERS[:1]), verbose=0,
    )  # fmt: skip
    return qa, history


def test_fit(trained):
    qa, history = trained
    assert isinstance(qa.model, bert_tf.BertSpanLabeler)
    assert history.history["loss"][-1] < 0.5 * history.history["loss"][0]
    assert "val_start_logits_accuracy" in history.history
    results = qa.evaluate(QUESTIONS, [CONTEXT] * 3, ANSWERS, verbose=0)
    np.testing.assert_allclose(
        results["loss"], (results["start_logits_loss"] + results["end_logits_loss"]) / 2, rtol=1e-5
    )
    answers = qa.predict(QUESTIONS, CONTEXT)
    assert [answer["answer"] for answer in answers] == ["e f", "h", "a b"]
    for answer in answers:
        assert set(answer) == {"answer", "start", "end", "score"}
        assert answer["answer"] == CONTEXT[answer["start"] : answer["end"]]


def test_fit_computes_padding(encoder_folder, monkeypatch):
    """The loss needs padding, because it is a softmax over all positions."""
    seen = []

    def fit(model, *_, **__):
        seen.append(model.skip_padding)
        return no_history()

    monkeypatch.setattr(keras.Model, "fit", fit)
    make(encoder_folder).fit(QUESTIONS, [CONTEXT] * 3, ANSWERS)
    assert seen == [False]


def test_the_end_of_the_questions_is_validated_on(encoder_folder, monkeypatch):
    seen = []

    def fit(model, data, **options):
        seen.append((data, options))
        return no_history()

    monkeypatch.setattr(keras.Model, "fit", fit)
    make(encoder_folder).fit(QUESTIONS, [CONTEXT] * 3, ANSWERS, validation_split=0.4)
    ((data, options),) = seen
    train, dev = (sum(len(ids["input_ids"]) for ids, *_ in x) for x in (
        data, options["validation_data"]
    ))  # fmt: skip
    windows = [
        sum(1 for _ in make(encoder_folder)._windows((QUESTIONS[i:j], [CONTEXT] * (j - i),
            ANSWERS[i:j]), ["a", "b", "c"])) for i, j in ((0, 2), (2, 3))
    ]  # fmt: skip
    assert [train, dev] == windows
    with pytest.raises(bert_tf.UserError, match="cannot be combined with `validation_data`"):
        make(encoder_folder).fit(
            QUESTIONS, [CONTEXT] * 3, ANSWERS, validation_split=0.4, validation_data=([], [], [])
        )


def test_batches_are_the_windows_of_the_script(encoder_folder):
    qa = make(encoder_folder)
    tokenizer = bert_tf.FullTokenizer(str(encoder_folder / "vocab.txt"))
    converter = features.FeatureConverter(tokenizer, qa.config, is_training=True)
    question = reading.Question("", "0", "d", (reading.Answer("e f", 8),), False)
    ((_, windows, _),) = converter(reading.Paragraph("", CONTEXT, (question,)))
    assert len(windows) > 1
    columns = (["d"], [CONTEXT], ["e f"])
    ((batch, targets),) = qa._dataset(columns, ("questions", "contexts", "answers"), 32)
    assert batch["input_ids"].shape == (len(windows), 16)
    vocab = tokenizer.vocab
    for i, window in enumerate(windows):
        tokens = window.context.ids[window.first : window.first + window.length]
        first = [vocab["[CLS]"], *window.query, vocab["[SEP]"]]
        second = [*tokens, vocab["[SEP]"]]
        padding = [0] * (16 - len(first) - len(second))
        assert batch["input_ids"][i].numpy().tolist() == first + second + padding
        assert batch["input_mask"][i].numpy().tolist() == [1] * (16 - len(padding)) + padding
        segments = [0] * len(first) + [1] * len(second) + padding
        assert batch["segment_ids"][i].numpy().tolist() == segments
        assert targets["start_logits"][i] == window.start_position
        assert targets["end_logits"][i] == window.end_position


@pytest.mark.slow
def test_presets_and_export(trained, tmp_path):
    qa = trained[0]
    inputs = {"question": QUESTIONS, "context": [CONTEXT] * 3}
    names = ("answer", "start", "end")
    loaded = run_pipeline_test(qa, inputs, tmp_path, names=names)
    assert loaded.config.doc_stride == 5
    expected = qa.predict(QUESTIONS, CONTEXT)
    assert loaded.predict(QUESTIONS, CONTEXT) == expected
    assert loaded.predict(QUESTIONS[0], CONTEXT) == expected[0]


@pytest.mark.slow
def test_questions_without_answer(encoder_folder, caplog):
    qa = make(encoder_folder, version_2_with_negative=True)
    qa.compile("sgd", run_eagerly=True)
    qa.fit(["a", "b", "c"], [CONTEXT] * 3, [None, "", "x y"], epochs=1, verbose=0)
    assert "1, the first: `answers`: item 2 is 'x y'" in caplog.text
    assert "null_odds" in qa.predict("a", CONTEXT)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a", ["b"], ["b"]), "`questions`: .*single str"),
        ((["a"], ["b", "c"], ["b"]), "`questions` and `contexts`: .* 1 and 2"),
        ((["a"], ["b"], []), "`questions` and `answers`: .* 1 and 0"),
        ((["a"], ["b"], [3]), "`answers`: item 0 is 3"),
        ((["a"], ["b"], [("b", "x")]), "`answers`: item 0 is .*'x'"),
        ((["a"], ["b"], [None]), "`answers`: item 0 .*`version_2_with_negative=True`"),
        ((["a"], ["b"], ["c"]), "`answers`"),
        (([], [], []), "`questions` is empty"),
    ],
)
def test_wrong_data(encoder_folder, arguments, message):
    with pytest.raises(bert_tf.UserError, match=message):
        make(encoder_folder).fit(*arguments)

"""`QuestionAnswering`: training, answers, presets and export."""

import dataclasses

import keras
import numpy as np
import pytest

import bert_tf
from bert_tf.tasks.question_answering import examples as reading
from bert_tf.tasks.question_answering import features
from tests.pipelines.classifier_helpers import captured_fit
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
    return qa, history.history


def test_fit(trained):
    qa, history = trained
    assert isinstance(qa.model, bert_tf.BertSpanLabeler)
    assert history["loss"][-1] < 0.5 * history["loss"][0]
    assert {"val_loss", "val_exact_match", "val_f1", "val_start_accuracy"} <= set(history)
    assert qa.evaluate(QUESTIONS, [CONTEXT] * 3, ANSWERS)["exact_match"] == 100
    answers = qa.predict(QUESTIONS, CONTEXT)
    assert [answer["answer"] for answer in answers] == ["e f", "h", "a b"]
    for answer in answers:
        assert set(answer) == {"answer", "start", "end", "score"}
        assert answer["answer"] == CONTEXT[answer["start"] : answer["end"]]


def test_questions_with_several_answers_and_metrics_of_keras(encoder_folder):
    qa = make(encoder_folder)
    qa.compile(metrics=[keras.metrics.SparseCategoricalAccuracy(name="own")] * 2)
    data = QUESTIONS, [CONTEXT] * 3, [["e f", "e", "f"], ("h", 14), [("a b", 20), ("b", 21)]]
    history = qa.fit(*data, validation_data=data, epochs=1, verbose=0).history
    expected = {"loss", "f1", "start_logits_own"}
    assert {f"val_{name}" for name in expected} <= set(history)
    assert expected <= set(qa.evaluate(*data, verbose=0))


def test_a_changed_config_has_an_effect(trained):
    qa, config = trained[0], trained[0].config
    data = QUESTIONS, [CONTEXT] * 3, ANSWERS
    expected = qa.predict("d", CONTEXT), qa.evaluate(*data)
    qa.config = dataclasses.replace(config, max_answer_length=1)
    assert len(qa.predict("d", CONTEXT)["answer"]) == 1
    assert qa.evaluate(*data)["exact_match"] < 100
    qa.config = config
    assert (qa.predict("d", CONTEXT), qa.evaluate(*data)) == expected


def test_batches_are_the_windows_of_the_script(encoder_folder):
    qa = make(encoder_folder)
    converter = features.FeatureConverter(qa.tokenizer, qa.config, is_training=True)
    question = reading.Question("", "0", "d", (reading.Answer("e f", 8),), False)
    ((_, windows, _),) = converter(reading.Paragraph("", CONTEXT, (question,)))
    assert len(windows) > 1
    (batch,) = captured_fit(qa, ["d"], [CONTEXT], ["e f"], shuffle=False)
    vocab, batch = qa.tokenizer.vocab, {name: np.array(x) for name, x in batch.items()}
    assert batch["input_ids"].shape == (len(windows), 16)
    for i, window in enumerate(windows):
        tokens = window.context.ids[window.first : window.first + window.length]
        first = [vocab["[CLS]"], *window.query, vocab["[SEP]"]]
        second = [*tokens, vocab["[SEP]"]]
        padding = [0] * (16 - len(first) - len(second))
        assert batch["input_ids"][i].tolist() == first + second + padding
        assert batch["input_mask"][i].tolist() == [1] * (16 - len(padding)) + padding
        assert batch["segment_ids"][i].tolist() == [0] * len(first) + [1] * len(second) + padding
        assert batch["start_positions"][i] == window.start_position
        assert batch["end_positions"][i] == window.end_position
    # The end of the questions is for validation.
    data = QUESTIONS, [CONTEXT] * 3, ANSWERS
    part = captured_fit(qa, *(x[:2] for x in data), shuffle=False)
    assert captured_fit(qa, *data, validation_split=0.4, shuffle=False) == part


@pytest.mark.slow
def test_presets_and_export(trained, tmp_path):
    inputs = {"question": QUESTIONS, "context": [CONTEXT] * 3}
    loaded = run_pipeline_test(trained[0], inputs, tmp_path, names=("answer", "start", "end"))
    assert loaded.config.doc_stride == 5
    expected = loaded.predict(QUESTIONS, CONTEXT)
    assert loaded.predict(QUESTIONS[0], CONTEXT) == expected[0]


@pytest.mark.slow
def test_questions_without_answer(encoder_folder, caplog):
    qa = make(encoder_folder, version_2_with_negative=True)
    data = ["a", "b", "c"], [CONTEXT] * 3, [None, "", "x y"]
    qa.fit(*data, epochs=1, verbose=0)
    assert '1, the first: `questions`, item 2: "x y"' in caplog.text
    assert "null_odds" in qa.predict("a", CONTEXT)
    assert {"exact", "f1"} & set(qa.evaluate(*data))

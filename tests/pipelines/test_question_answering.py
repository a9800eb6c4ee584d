"""`QuestionAnswering`: training, answers, presets and export."""

import dataclasses

import keras
import pytest

import bert_tf
from tests.pipelines.classifier_helpers import captured_fit
from tests.pipelines.conftest import run_pipeline_test

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
        QUESTIONS * 30, contexts * 30, ANSWERS * 30, epochs=2, batch_size=6, learning_rate=5e-3,
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
    row = {"question": "d", "context": CONTEXT}
    assert qa.predict(**row) == qa.predict(row) == answers[0]
    assert qa.predict([row]) == qa.predict({x: [y] for x, y in row.items()}) == answers[:1]
    best = qa.predict("d", CONTEXT, top_k=3)
    assert best == qa.predict([row], top_k=3)[0] and best[0] == answers[0]
    assert best == sorted(best, key=lambda x: -x["score"]) and len({x["start"] for x in best}) > 1
    assert [x["answer"] for x in qa.predict("d", "e", top_k=4)] == ["e"]
    with pytest.raises(bert_tf.UserError, match=r"`top_k=5`: .* between 1 and 4"):
        qa.predict("d", CONTEXT, top_k=5)


def test_questions_that_cannot_be_answered_well(trained, caplog):
    qa = trained[0]
    assert len(qa.predict(["a b c d", " "], CONTEXT)) == 2
    assert "`question`: 1 of 2" in caplog.text
    for questions in ({"question": QUESTIONS}, [None]):
        with pytest.raises(bert_tf.UserError, match="`question`"):
            qa.predict(questions, CONTEXT)


@pytest.mark.slow
def test_a_changed_config_has_an_effect(trained):
    qa, config = trained[0], trained[0].config
    data = QUESTIONS, [CONTEXT] * 3, ANSWERS
    expected = qa.predict("d", CONTEXT), qa.evaluate(*data)
    qa.config = dataclasses.replace(config, max_answer_length=1)
    assert len(qa.predict("d", CONTEXT)["answer"]) == 1
    assert qa.evaluate(*data)["exact_match"] < 100
    qa.config = config
    assert (qa.predict("d", CONTEXT), qa.evaluate(*data)) == expected


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
    assert '1, the first: `question`, item 2: "x y"' in caplog.text
    assert "null_odds" in qa.predict("a", CONTEXT)
    assert {"exact", "f1"} & set(qa.evaluate(*data))


def test_answers_with_any_white_space(encoder_folder):
    qa, spaces = make(encoder_folder), ("\u00a0", "\u2009", "\u3000", "\u2028", "\x0b", "  ")
    answers = [(x, y) for x in spaces for y in (f"b{x}c", "b c", (f"b{x}c", 2))]
    for space, answer in answers:
        (batch,) = captured_fit(qa, ["d"], [f"a b{space}c d"], [answer])
        assert (batch["start_positions"], batch["end_positions"]) == ([4], [5])

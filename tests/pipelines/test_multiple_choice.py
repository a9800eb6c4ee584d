"""`MultipleChoice`: training, answers, presets and export."""

import keras
import numpy as np
import pytest

import bert_tf
from tests.pipelines.classifier_helpers import captured_fit
from tests.pipelines.conftest import run_pipeline_test

# The right ending begins with the last letter of the context.
CONTEXTS = ["a b", "c d", "e f a", "g", "b c d a", "a g"] * 2
ENDINGS = [["b a", "c d", "e"], ["a a", "b", "d g"], ["c", "a", "g g"],
           ["g c c", "b", "e"], ["d", "a f", "b"], ["c", "d a", "g"]] * 2  # fmt: skip
LABELS = [0, 2, 1, 0, 1, 2] * 2


def make(folder):
    keras.utils.set_random_seed(0)
    return bert_tf.MultipleChoice.from_preset(folder, max_seq_length=12)


@pytest.mark.parametrize("is_exported", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_fit(encoder_folder, tmp_path, is_exported):
    choice = make(encoder_folder)
    # One long epoch, because TensorFlow optimizes the graph of the dataset anew in each.
    history = choice.fit(
        CONTEXTS * 20, ENDINGS * 20, LABELS * 20, validation_split=0.05, epochs=1, batch_size=3,
        learning_rate=2e-3, verbose=0,
    )  # fmt: skip
    assert history.history["val_accuracy"][-1] == 1
    assert choice.evaluate(CONTEXTS, np.array(ENDINGS), LABELS)["accuracy"] == 1
    answers = choice.predict(CONTEXTS, ENDINGS)
    assert [answer["choice"] for answer in answers] == LABELS
    if is_exported:
        run_pipeline_test(choice, {"context": CONTEXTS, "endings": ENDINGS}, tmp_path)
    # The number of endings may differ from the training data and between rows.
    answers = choice.predict(["a", "b"], [["b", "a"], ["a", "b", "c"]])
    assert [len(answer["probabilities"]) for answer in answers] == [2, 3]


def test_inputs_are_those_of_transformers(encoder_folder):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.BertTokenizer(str(encoder_folder / "vocab.txt"))
    options = {"batch_size": 99, "shuffle": False}
    (batch,) = captured_fit(make(encoder_folder), CONTEXTS, ENDINGS, LABELS, **options)
    pairs = [(x, ending) for x, row in zip(CONTEXTS, ENDINGS, strict=True) for ending in row]
    expected = tokenizer(*map(list, zip(*pairs, strict=True)), padding="max_length", max_length=12)
    names = {"input_ids": "input_ids", "input_mask": "attention_mask",
             "segment_ids": "token_type_ids"}  # fmt: skip
    for name, other in names.items():
        assert np.reshape(batch[name], (-1, 12)).tolist() == expected[other]
    assert batch["label_ids"] == LABELS

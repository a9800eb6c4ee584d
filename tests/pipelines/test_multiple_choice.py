"""`MultipleChoice`: training, answers, presets, export and errors."""

import keras
import numpy as np
import pytest

import bert_tf
from tests.pipelines.conftest import run_pipeline_test

pytest.importorskip("tensorflow_text")

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
    results = choice.evaluate(CONTEXTS, np.array(ENDINGS), LABELS, verbose=0)
    assert results["accuracy"] == 1
    texts = [row[label] for row, label in zip(ENDINGS, LABELS, strict=True)]
    assert choice.evaluate(CONTEXTS, ENDINGS, texts, verbose=0) == results
    answers = choice.predict(CONTEXTS, ENDINGS)
    assert [answer["choice"] for answer in answers] == LABELS
    if is_exported:
        run_pipeline_test(choice, {"context": CONTEXTS, "endings": ENDINGS}, tmp_path)
    else:
        choice.save_to_preset(tmp_path / "saved")
        loaded = bert_tf.MultipleChoice.from_preset(tmp_path / "saved")
        assert loaded.predict(CONTEXTS, ENDINGS) == answers
    # The number of endings may differ from the training data and between rows.
    assert len(choice.predict(CONTEXTS[:1], [["b", "a"]])[0]["probabilities"]) == 2


def test_inputs_are_those_of_transformers(encoder_folder):
    transformers = pytest.importorskip("transformers")
    choice = make(encoder_folder)
    tokenizer = transformers.BertTokenizer(str(encoder_folder / "vocab.txt"))
    ((inputs, labels),) = choice._dataset((CONTEXTS, ENDINGS, LABELS), ["x"] * 3, 99)
    pairs = [(x, ending) for x, row in zip(CONTEXTS, ENDINGS, strict=True) for ending in row]
    expected = tokenizer(*map(list, zip(*pairs, strict=True)), padding="longest")
    size = inputs["input_ids"].shape[-1]
    names = {"input_ids": "input_ids", "input_mask": "attention_mask",
             "segment_ids": "token_type_ids"}  # fmt: skip
    for name, other in names.items():
        rows = np.array(expected[other])
        rows = np.pad(rows, [(0, 0), (0, size - rows.shape[1])])
        np.testing.assert_array_equal(inputs[name].numpy().reshape(-1, size), rows)
    assert labels.numpy().tolist() == LABELS


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((["a"], [["b", "c"]], [2]), "`labels`: item 0 is 2, .* 0 to 1"),
        ((["a"], [["b", "c"]], ["d"]), "`labels`: item 0 is 'd'"),
        ((["a"], [["b"]], [0]), "`endings`: item 0"),
        ((["a"] * 2, [["b", "c"], ["b", "c", "d"]], [0, 0]), "item 1 has 3 endings, expected 2"),
        ((["a"], [["b", "c"]], [0, 1]), "`contexts` and `labels`: .* 1 and 2"),
    ],
)
def test_bad_input(encoder_folder, data, message):
    with pytest.raises(bert_tf.UserError, match=message):
        make(encoder_folder).fit(*data)

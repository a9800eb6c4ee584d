"""The tokenizer as a Keras layer: ids, shapes, models with string inputs, saving, export."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.tasks.classification.options import ClassificationConfig
from bert_tf.tokenization.packing import pack_pair
from tests.common import TINY, WORDS, write_vocab

pytest.importorskip("tensorflow_text")

TEXTS = ["a b", "", "Ab zz c d e f", b"\xffa"]
PAIRS = ["c", "d", "", "e f g h i j"]


@pytest.fixture(scope="module")
def tokenizer():
    return bert_tf.BertTokenizer(WORDS, max_seq_length=8)


def as_lists(batch):
    return {name: values.numpy().tolist() for name, values in batch.items()}


def expected_batch(python, texts, pairs):
    rows = [
        pack_pair(python.encode(a), python.encode(b), python, 8)
        for a, b in zip(texts, pairs, strict=True)
    ]
    return {name: [row[name] for row in rows] for name in rows[0]}


def test_shapes(tokenizer, tmp_path):
    python = bert_tf.FullTokenizer(str(write_vocab(tmp_path)))
    expected = expected_batch(python, TEXTS, PAIRS)
    assert as_lists(tokenizer(TEXTS, PAIRS)) == expected
    columns = tf.constant(TEXTS)[:, None], tf.constant(PAIRS)[:, None]
    assert as_lists(tokenizer(*columns)) == expected
    assert as_lists(tokenizer(np.array(TEXTS, object), np.array(PAIRS))) == expected
    scalar = {name: rows[0] for name, rows in expected.items()}
    assert as_lists(tokenizer(TEXTS[0], PAIRS[0])) == scalar
    longest = bert_tf.BertTokenizer(WORDS, max_seq_length=8, pad_to_longest=True)
    assert longest(TEXTS[:2])["input_ids"].shape == (2, 4)
    assert longest([])["input_ids"].shape[0] == 0


def test_in_tf_data(tokenizer):
    expected = as_lists(tokenizer(TEXTS, PAIRS))
    dataset = tf.data.Dataset.from_tensor_slices((TEXTS, PAIRS))
    for mapped in (dataset.batch(4).map(tokenizer), dataset.map(tokenizer).batch(4)):
        assert as_lists(next(iter(mapped))) == expected
        assert mapped.element_spec["input_ids"].shape[1] == 8


def text_model(tokenizer, shape=()):
    """Return a small functional model that classifies pairs of strings."""
    texts = keras.Input(shape, dtype="string", name="text")
    pairs = keras.Input(shape, dtype="string", name="pair")
    batch = tokenizer(texts, pairs)
    x = keras.layers.Embedding(len(WORDS), 4, name="embedding")(batch["input_ids"])
    logits = keras.layers.Dense(2, name="dense")(keras.layers.Flatten()(x))
    return keras.Model({"text": texts, "pair": pairs}, logits)


@pytest.mark.slow
def test_model_that_takes_strings(tokenizer, tmp_path):
    model = text_model(tokenizer)
    inputs = {"text": tf.constant(TEXTS), "pair": tf.constant(PAIRS)}
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(inputs, np.array([0, 1, 0, 1]), batch_size=2, verbose=0)
    x = model.get_layer("embedding")(tokenizer(TEXTS, PAIRS)["input_ids"])
    expected = model.get_layer("dense")(tf.reshape(x, (len(TEXTS), -1)))
    np.testing.assert_allclose(model.predict(inputs, verbose=0), expected, atol=1e-6)

    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(inputs), model(inputs))

    model.export(tmp_path / "export", verbose=False)
    served = tf.saved_model.load(str(tmp_path / "export"))
    np.testing.assert_allclose(served.serve(inputs), expected, atol=1e-6)

    columns = text_model(tokenizer, (1,))
    columns.set_weights(model.get_weights())
    outputs = columns({name: values[:, None] for name, values in inputs.items()})
    np.testing.assert_allclose(outputs, expected, atol=1e-6)


def test_methods_of_keras_hub(tmp_path):
    vocab = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 5, "##b": 4}
    pieces = ["[UNK]", "[CLS]", "[SEP]", None, "##b", "a"]
    ids, text = [1, 5, 4, 5, 2], "[CLS] ab a [SEP]"
    for tokenizer in (bert_tf.BertTokenizer(pieces), bert_tf.FullTokenizer(vocab)):
        assert tokenizer.get_vocabulary() == pieces and tokenizer.vocabulary_size() == 6
        assert tokenizer.token_to_id("##b") == 4 and tokenizer.id_to_token(5) == "a"
        for form in (list, np.array, tf.constant):
            assert tokenizer.detokenize(form(ids)) == text
            assert tokenizer.detokenize(form([ids])) == [text]
        for call, value in (
            (tokenizer.token_to_id, "b"), (tokenizer.id_to_token, 3), (tokenizer.detokenize, [-1])
        ):  # fmt: skip
            with pytest.raises(bert_tf.UserError, match="vocabulary of 5"):
                call(value)


def test_config_round_trip():
    vocab = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "[MASK]": 4, "a": 7}
    layer = bert_tf.BertTokenizer(
        vocab, False, max_seq_length=6, pad_to_longest=True, keep_special_tokens=True, name="t"
    )
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
    loaded = keras.saving.deserialize_keras_object(config)
    assert loaded.vocab == vocab and loaded.name == "t"
    assert loaded.get_config() == layer.get_config()
    assert as_lists(loaded(["a [MASK] A"])) == as_lists(layer(["a [MASK] A"]))


def test_from_preset(tmp_path, caplog):
    write_vocab(tmp_path)
    layer = bert_tf.BertTokenizer.from_preset(tmp_path)
    assert layer.do_lower_case and layer.max_seq_length == 128
    assert "`do_lower_case=True`" in caplog.text
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert not bert_tf.BertTokenizer.from_preset(str(tmp_path)).do_lower_case
    config = ClassificationConfig(
        TINY, str(tmp_path / "vocab.txt"), max_seq_length=9, labels=("x", "y")
    )
    config.save(tmp_path / "run")
    assert bert_tf.BertTokenizer.from_preset(tmp_path / "run").max_seq_length == 9
    layer = bert_tf.BertTokenizer.from_preset(tmp_path / "run", max_seq_length=5)
    assert layer.max_seq_length == 5 and layer.do_lower_case


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([["a", "b"]],), r"`texts`: .*\(1, 2\).*`pairs`"),
        ((["a"], keras.Input((1,), dtype="int32")), "`pairs`: .*int32"),
        ((keras.Input((3,), dtype="string"),), r"`texts`: .*\(None, 3\)"),
        ((["a"], ["b", "c"]), "`texts` and `pairs`: found 1 and 2"),
    ],
)
def test_wrong_texts(tokenizer, arguments, message):
    with pytest.raises(bert_tf.UserError, match=message):
        tokenizer(*arguments)


def test_wrong_arguments(tmp_path, write_vocab):
    long = write_vocab(["[UNK]", "[CLS]", "[SEP]", "[MASK]", "\U00010400" * 100])
    for make, arguments, message in (
        (bert_tf.BertTokenizer, {"vocabulary": ["a"]}, r"`vocabulary`: .*\[UNK\]"),
        (bert_tf.BertTokenizer, {"vocabulary": WORDS, "max_seq_length": 4}, "`max_seq_length=4`"),
        (bert_tf.GraphTokenizer, {"vocab": str(tmp_path)}, f"{tmp_path}: cannot be read"),
        (bert_tf.GraphTokenizer, {"vocab": long}, "the piece .* 256 bytes"),
    ):
        with pytest.raises(bert_tf.UserError, match=message):
            make(**arguments)

"""Programs in the style of keras-hub and transformers users, on data like SST-2."""

import json
import random

import keras
import numpy as np
import pytest

import bert_tf
from bert_tf import checkpoints
from bert_tf.modeling import BertPretrainer
from tests.common import WITHOUT_DROPOUT, tiny

pytest.importorskip("tensorflow_text")

GOOD, BAD = ["charming", "moving", "funny", "fresh"], ["dull", "clumsy", "tired", "stale"]
NOUNS = ["film", "story", "cast", "ending"]
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "the", "is", "and", *GOOD, *BAD, *NOUNS]


def make_reviews(count, seed):
    """Return sentences and labels; 1 is positive."""
    draw, texts, labels = random.Random(seed), [], []
    for _ in range(count):
        words = draw.choice([BAD, GOOD])
        texts.append(f"the {draw.choice(NOUNS)} is {draw.choice(words)} and {draw.choice(words)}")
        labels.append(int(words is GOOD))
    return texts, np.array(labels)


TRAIN, TEST = make_reviews(128, 0), make_reviews(32, 1)


def train_bert_tf(preset, folder):
    """Run the program with bert_tf; return metrics, classes and the saved model's classes."""
    classifier = bert_tf.TextClassifier.from_preset(preset, num_classes=2, max_seq_length=16)
    classifier.compile(
        optimizer=keras.optimizers.Adam(2e-3),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    classifier.fit(x=TRAIN[0], y=TRAIN[1], batch_size=16, epochs=5, verbose=0)
    metrics = classifier.evaluate(x=TEST[0], y=TEST[1], return_dict=True, verbose=0)
    classes = [int(answer["label"]) for answer in classifier.predict(TEST[0], verbose=0)]
    classifier.save_to_preset(folder)
    loaded = bert_tf.TextClassifier.from_preset(folder)
    return metrics, classes, [int(answer["label"]) for answer in loaded.predict(TEST[0])]


def train_keras_hub(keras_hub, folder):
    """Run the same program with keras-hub."""
    classifier = keras_hub.models.BertTextClassifier(
        backbone=keras_hub.models.BertBackbone(
            vocabulary_size=len(VOCAB), num_layers=1, num_heads=2, hidden_dim=16,
            intermediate_dim=32, dropout=0.0, max_sequence_length=16,
        ),
        preprocessor=keras_hub.models.BertTextClassifierPreprocessor(
            keras_hub.tokenizers.BertTokenizer(vocabulary=VOCAB, lowercase=True),
            sequence_length=16,
        ),
        num_classes=2,
    )  # fmt: skip
    classifier.compile(
        optimizer=keras.optimizers.Adam(2e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    classifier.fit(x=TRAIN[0], y=TRAIN[1], batch_size=16, epochs=5, verbose=0)
    metrics = classifier.evaluate(x=TEST[0], y=TEST[1], return_dict=True, verbose=0)
    classes = classifier.predict(TEST[0], verbose=0).argmax(-1)
    classifier.save_to_preset(folder)
    loaded = keras_hub.models.BertTextClassifier.from_preset(folder)
    return metrics, list(classes), list(loaded.predict(TEST[0], verbose=0).argmax(-1))


@pytest.fixture
def preset(tmp_path):
    """A release folder of a small model with random weights."""
    folder = tmp_path / "preset"
    folder.mkdir()
    config = tiny(
        vocab_size=len(VOCAB), num_hidden_layers=1, max_position_embeddings=16, **WITHOUT_DROPOUT
    )
    (folder / "bert_config.json").write_text(config.to_json_string())
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in VOCAB))
    keras.utils.set_random_seed(0)
    tensors = checkpoints.tensors(BertPretrainer(config))
    checkpoints.write(str(folder / "bert_model.ckpt"), tensors)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("library", ["bert_tf", "keras_hub"])
def test_the_program_of_a_keras_hub_user(library, preset, tmp_path):
    keras.utils.set_random_seed(0)
    folder = str(tmp_path / "saved")
    if library == "bert_tf":
        metrics, classes, again = train_bert_tf(preset, folder)
    else:
        metrics, classes, again = train_keras_hub(pytest.importorskip("keras_hub"), folder)
    assert set(metrics) == {"accuracy", "loss"}
    assert metrics["accuracy"] == pytest.approx(np.mean(classes == TEST[1]))
    assert classes == again
    if library == "bert_tf":  # the libraries initialise weights differently
        assert metrics["accuracy"] == 1.0


@pytest.fixture
def transformers_folder(transformers, tmp_path):
    """A folder of a classifier with random weights, saved by transformers."""
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in VOCAB))
    config = transformers.BertConfig(
        vocab_size=len(VOCAB), num_hidden_layers=1, num_attention_heads=2, hidden_size=16,
        intermediate_size=32, max_position_embeddings=16, initializer_range=0.2,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        id2label={0: "NEGATIVE", 1: "POSITIVE"}, label2id={"NEGATIVE": 0, "POSITIVE": 1},
    )  # fmt: skip
    folder = str(tmp_path / "transformers")
    transformers.set_seed(0)
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    transformers.BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(folder)
    return folder


def test_the_program_of_a_transformers_user(transformers, transformers_folder, tmp_path):
    """Predicts like a transformers pipeline, trains, and converts back to transformers."""
    reference = transformers.pipeline("text-classification", transformers_folder, framework="pt")
    expected = reference(TEST[0], top_k=None)
    classifier = bert_tf.TextClassifier.from_preset(transformers_folder)
    for answer, scores in zip(classifier.predict(TEST[0]), expected, strict=True):
        for label, probability in answer["probabilities"].items():
            (score,) = [x["score"] for x in scores if x["label"] == label]
            np.testing.assert_allclose(probability, score, atol=2e-5)

    names = ["NEGATIVE", "POSITIVE"]
    labels = [names[label] for label in TRAIN[1]]
    classifier.fit(TRAIN[0], labels, batch_size=16, epochs=5, learning_rate=1e-2, verbose=0)
    answers = classifier.predict(TEST[0])
    assert [answer["label"] for answer in answers] == [names[label] for label in TEST[1]]

    folder = str(tmp_path / "trained")
    checkpoints.write_hugging_face(
        folder, checkpoints.tensors(classifier.model), classifier.model.config,
        str(tmp_path / "vocab.txt"), classifier.config.do_lower_case, names,
    )  # fmt: skip
    with open(f"{folder}/config.json") as file:
        assert json.load(file)["id2label"] == {"0": "NEGATIVE", "1": "POSITIVE"}
    trained = transformers.pipeline("text-classification", folder, framework="pt")
    assert [x["label"] for x in trained(TEST[0])] == [answer["label"] for answer in answers]

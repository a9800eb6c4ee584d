"""A program in the style of transformers users, on data like SST-2."""

import json
import random

import numpy as np
import pytest

import bert_tf
from bert_tf import checkpoints

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


TRAIN, TEST = make_reviews(640, 0), make_reviews(32, 1)


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
    classifier.fit(TRAIN[0], labels, batch_size=16, epochs=1, learning_rate=1e-2, verbose=0)
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

"""`TokenClassification`: training on texts with entities and on words with tags."""

import itertools
import re

import keras
import numpy as np
import pytest
from scipy.special import log_softmax

import bert_tf
from bert_tf.tasks.token_classification import schemes
from bert_tf.tasks.token_classification.examples import Sentence
from bert_tf.tasks.token_classification.options import Tags
from tests.pipelines.classifier_helpers import captured_fit
from tests.pipelines.conftest import run_pipeline_test

RNG = np.random.default_rng(0)
# "a" and "ab" are persons, "b" a place.
SENTENCES = [list(RNG.choice([*"abcdefg", "ab"], size)) for size in RNG.integers(1, 14, 24)]
LABELS = {"a": "PER", "ab": "PER", "b": "LOC"}


def tags_of(words, scheme="iob2"):
    spans = [schemes.Span(LABELS[x], i, i + 1) for i, x in enumerate(words) if x in LABELS]
    return schemes.tags_from_spans(spans, len(words), scheme)


def entities_of(words):
    """Return the entities of the words joined by spaces, as dicts."""
    ends = np.cumsum([len(word) + 1 for word in words]) - 1
    return [
        {"start": int(end) - len(word), "end": int(end), "label": LABELS[word]}
        for word, end in zip(words, ends, strict=True)
        if word in LABELS
    ]


TEXTS = [" ".join(words) for words in SENTENCES]
ENTITIES = list(map(entities_of, SENTENCES))
TAGS = list(map(tags_of, SENTENCES))


def make(folder, labels=("PER", "LOC"), **options):
    keras.utils.set_random_seed(0)
    return bert_tf.TokenClassification.from_preset(folder, labels, max_seq_length=9, **options)


@pytest.fixture(scope="module")
def trained(encoder_folder):
    """The pipeline after `fit` on texts and its history."""
    ner = make(encoder_folder)
    history = ner.fit(
        TEXTS * 15, ENTITIES * 15, validation_data=(SENTENCES[:9], TAGS[:9]), epochs=2,
        batch_size=8, learning_rate=1e-2, verbose=0,
    )  # fmt: skip
    return ner, history.history


def test_fit(trained):
    ner, history = trained
    assert not ner.config.do_lower_case  # as in the script: the model is cased by default
    assert history["val_f1"][-1] > 0.9
    assert history["loss"][-1] < 0.5 * history["loss"][0]
    assert set(history) >= {"val_loss", "val_accuracy", "val_precision", "val_recall"}
    answers = ner.predict(TEXTS)
    found = [[{k: x[k] for k in ("start", "end", "label")} for x in a["entities"]] for a in answers]
    assert np.mean([a == b for a, b in zip(found, ENTITIES, strict=True)]) > 0.9
    # Predictions can serve as training data.
    assert ner.evaluate(TEXTS, [x["entities"] for x in answers])["f1"] == 1
    words = ner.predict(SENTENCES)
    assert list(map(len, words)) == list(map(len, SENTENCES))
    assert ner.predict([[], *SENTENCES, []]) == [[], *words, []] and ner.predict([[]]) == [[]]
    assert ner.evaluate(SENTENCES, words)["accuracy"] == 1


@pytest.mark.slow  # test_tags_without_spans loads a saved model
def test_presets_and_export(trained, tmp_path):
    run_pipeline_test(trained[0], {"text": TEXTS[:3]}, tmp_path)


def test_loss_is_the_mean_over_words(encoder_folder):
    """Training, evaluation and the logits of single sentences give the same loss."""
    ner = make(encoder_folder)
    losses = []
    vocab, names = ner.tokenizer.vocab, ner.config.tags.names
    short = [i for i, words in enumerate(SENTENCES) if len(words) < 4]
    for i in short:
        pieces = [["a", "##b"] if word == "ab" else [word] for word in SENTENCES[i]]
        ids = [vocab[x] for x in ("[CLS]", *itertools.chain(*pieces), "[SEP]")]
        logits = ner.model({"input_ids": np.array([ids]), "input_mask": np.ones((1, len(ids)), int),
                            "segment_ids": np.zeros((1, len(ids)), int)})["logits"]  # fmt: skip
        starts = 1 + np.cumsum([0, *map(len, pieces[:-1])])
        scores = log_softmax(logits.numpy()[0][starts], -1)
        losses += [-row[names.index(tag)] for row, tag in zip(scores, TAGS[i], strict=True)]
    data = [SENTENCES[i] for i in short], [TAGS[i] for i in short]
    assert ner.evaluate(*data, batch_size=3)["loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    ner.compile(keras.optimizers.SGD(0.0))
    history = ner.fit(*data, epochs=1, batch_size=99, verbose=0).history
    assert history["loss"][0] == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.mark.parametrize("scheme", ["iob2", pytest.param("iobes", marks=pytest.mark.slow)])
def test_texts_and_words_give_the_same_batches(encoder_folder, scheme, caplog):
    ner = make(encoder_folder, scheme=scheme)
    assert ner.config.tags.scheme == scheme
    expected = captured_fit(ner, TEXTS, ENTITIES, shuffle=False)
    for data_scheme, found in (("iob1", "iob2"), ("iob2", "iob2"), ("iobes", "iobes")):
        tags = [tags_of(words, data_scheme) for words in SENTENCES]
        assert captured_fit(ner, SENTENCES, tags, shuffle=False) == expected
        captured_fit(ner, TEXTS[:1], [[]])  # no entities
        assert ner.config.tags.data_scheme == found
        assert ner.evaluate(TEXTS, ENTITIES) == ner.evaluate(SENTENCES, tags)
    # An entity takes whole words.
    expected = captured_fit(ner, ["ab c"], [[(0, 2, "PER")]])
    for end in (1, 3):
        assert captured_fit(ner, ["ab c"], [[(0, end, "PER")]]) == expected
    assert caplog.text.count("1 entities start or end inside a word") == 1
    captured_fit(ner, TEXTS, ENTITIES, class_weight={"O": 0.25})
    names = ner.config.tags.names
    assert ner.model.objective.class_weights == tuple(0.25 if x == "O" else 1.0 for x in names)
    captured_fit(ner, TEXTS, ENTITIES, class_weight="balanced")
    missing = names.index("I-PER")
    assert ner.model.objective.class_weights[missing] == 1 < max(ner.model.objective.class_weights)
    warning = "`class_weight=balanced`: none of the training examples have the labels .*I-PER"
    assert re.search(warning, caplog.text)


def test_tags_without_spans(encoder_folder, tmp_path):
    ner = make(encoder_folder, ["NOUN", "VERB"], scheme="none")
    tags = [["NOUN" if word in "ace" else "VERB" for word in words] for words in SENTENCES]
    ner.fit(
        SENTENCES * 10, tags * 10, epochs=2, batch_size=8, learning_rate=1e-2, verbose=0,
        class_weight="balanced",
    )  # fmt: skip
    assert set(scores := ner.evaluate(SENTENCES, tags)) == {"loss", "accuracy"}
    assert scores["accuracy"] > 0.9
    ner.save_to_preset(tmp_path / "saved")
    loaded = bert_tf.TokenClassification.from_preset(tmp_path / "saved")
    assert loaded.predict(SENTENCES) == ner.predict(SENTENCES)
    with pytest.raises(bert_tf.UserError, match="found strings, expected lists of words"):
        ner.fit(TEXTS, ENTITIES)


@pytest.mark.parametrize(
    ("labels", "scheme", "names", "found"),
    [
        (["O", "X", "Y"], None, ("O", "X", "Y"), "io"),
        (["O", "X", "Y"], "none", ("O", "X", "Y"), "none"),
        (["O", "X"], "iob2", ("O", "B-X", "I-X"), "iob2"),
        (["X"], "io", ("O", "X"), "io"),
        (["X"], None, ("X",), "none"),
        (["O", "B-X", "L-X"], None, ("O", "B-X", "L-X"), "iobes"),
    ],
)
def test_tags_of_labels(labels, scheme, names, found):
    assert Tags.of_labels(labels, scheme) == (names, found, found)


@pytest.mark.parametrize(
    ("names", "expected"),
    [("O B_X I_X B_Y", "O B_X I_X B_Y O B_X"), ("O X Y", "O X X Y O X")],
)
def test_tags_without_prefixes(names, expected):
    sentence = Sentence("x", tuple("abcdef"), ("O", "X", "X", "Y", "O", "X"))
    tags = Tags.of_labels(names.split()).of_data([sentence])
    assert tags.convert(sentence) == expected.split()

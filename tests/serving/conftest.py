"""Checks for every servable, and exported models for the serving tests."""

import functools
import json
import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import configs, serving
from bert_tf.serving import exporting
from tests.common import write_vocab
from tests.serving import serving_models
from tests.serving.serving_models import LENGTH, padded_ids

BUCKETS = (5, 9)

HOSTILE = [b"\xff\xfe", b"a\0b", "\U0001f600".encode() * 50, b"a" * 100_000, b"\n\t \xc2\xa0",
           b"[CLS] [SEP] [MASK]", "a\u0301\u200b\ufeff b".encode()]  # fmt: skip


class ServableTest:
    """Checks of a servable.

    Args:
      task: name of the task in `model.json`.
      make: function from a `ServingConfig` to a `Servable`; the weights are always the same.
      rows_of: function from texts to rows of a `Predictor`.
      predictor: function that returns the `Predictor` of an export with `BUCKETS`.
      folder: a `pathlib.Path` for exported models.
      max_length: the largest number of tokens of a sequence.
    """

    def __init__(self, task, make, rows_of, predictor, folder, max_length=LENGTH):
        self.task, self.make, self.rows_of, self.predictor = task, make, rows_of, predictor
        self.folder, self.max_length = folder, max_length

    def answers(self):
        """The export gives the servable's answers, singly and in a batch, from text and ids."""
        predictor, plain = self.predictor(), self.make(configs.ServingConfig())
        rows = self.rows_of(serving_models.TEXTS)
        assert predictor.inputs == tuple(rows[0])
        for row, in_batch in zip(rows, predictor(rows), strict=True):
            (alone,) = predictor([row])
            outputs = {name: x.numpy()[0] for name, x in serve_rows(plain, [row]).items()}
            assert_alike(alone, in_batch)
            assert_alike(
                alone, (predictor.served.answer or serving.all_outputs)(outputs, predictor.metadata)
            )
        inputs, mask = padded_ids(plain, 3)
        outputs = predictor._model.signatures["ids"](**inputs)
        assert_same_outputs(outputs, plain.serve_ids(inputs), mask)

    def side_files(self):
        """The model answers the warm-up requests; model.json and vocab.txt are complete."""
        predictor, servable = self.predictor(), self.make(configs.ServingConfig())
        extra = pathlib.Path(predictor.path) / "assets.extra"
        metadata = json.loads((extra / "model.json").read_text())
        lengths = [*BUCKETS, self.max_length]
        assert metadata["task"] == self.task and metadata["sequence_buckets"] == lengths
        if self.task == "classification":
            assert (extra / "numbers.txt").read_text() == "x\ny\n"
        vocab = [*servable.prepared.tokenizer.vocab]
        assert (extra / "vocab.txt").read_text() == "\n".join(vocab) + "\n"
        path = os.path.join(predictor.path, exporting.WARM_UP_REQUESTS)
        requests = list(tf.data.TFRecordDataset(path).as_numpy_iterator())
        assert len(requests) == 2 * len(lengths) * 2  # signatures, lengths, sizes
        of_ids = []
        log = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
        for request in requests:
            message = log.PredictionLog.FromString(request).predict_log.request
            serve = predictor._model.signatures[message.model_spec.signature_name]
            inputs = {name: tf.make_ndarray(x) for name, x in message.inputs.items()}
            serve(**inputs)
            of_ids += [x.shape[-1] for name, x in inputs.items() if name == "input_ids"]
        assert of_ids == [length for length in lengths for _ in range(2)]

    def skipped_padding(self):
        """Skipping padding does not change the outputs for padded ids."""
        outputs = {}
        for skip_padding in (True, False):
            servable = self.make(configs.ServingConfig(skip_padding=skip_padding))
            inputs, mask = padded_ids(servable, self.max_length)
            outputs[skip_padding] = servable.serve_ids(inputs)
        assert_same_outputs(outputs[True], outputs[False], mask)

    def half_precision(self):
        """An export in bfloat16 outputs float32 and is close to the model."""
        rows = self.rows_of(serving_models.TEXTS)
        servable = self.make(configs.ServingConfig(dtype="bfloat16", warm_up=False))
        inputs, mask = padded_ids(servable, self.max_length)
        predictor = serving.Predictor(serving.export(servable, str(self.folder / "bfloat16")))
        assert len(predictor(rows)) == len(rows)
        outputs = self.predictor()._model.signatures["ids"](**inputs)
        for name, value in predictor._model.signatures["ids"](**inputs).items():
            expected = outputs[name]
            assert value.dtype == expected.dtype
            if value.dtype == tf.float32:
                difference = np.abs(value - expected)
                if value.shape[: mask.ndim] == mask.shape:  # of tokens
                    difference = difference[mask == 1]
                assert 0 < difference.max() < 0.2, name

    def hostile_texts(self, texts=HOSTILE):
        """Hostile texts have the same outputs alone and in a batch."""
        servable = self.make(configs.ServingConfig())
        rows = self.rows_of(texts)
        in_batch = serve_rows(servable, rows)
        for i, row in enumerate(rows):
            for name, value in serve_rows(servable, [row]).items():
                one, other = value.numpy()[0], in_batch[name].numpy()[i]
                if np.ndim(one):
                    size = min(len(one), len(other))
                    assert not {*one[size:], *other[size:]} - {b"", -1, 0}, name
                    one, other = one[:size], other[:size]
                if value.dtype == tf.float32:
                    np.testing.assert_allclose(one, other, atol=1e-5)
                else:
                    np.testing.assert_array_equal(one, other)


CHECKS = ("answers", "side_files", "skipped_padding", "half_precision", "hostile_texts")


def serve_rows(servable, rows):
    """Return the outputs of a servable for rows, a dict of tensors."""
    columns = {
        name: tf.constant([row[name] for row in rows], spec.dtype)
        for name, spec in servable.text_signature.items()
    }
    return servable.serve_text(columns)


def assert_same_outputs(outputs, expected, mask):
    """Compare outputs for ids where `mask` is 1; outputs at padding are undefined."""
    assert outputs.keys() == expected.keys()
    for name, value in outputs.items():
        value, other = value.numpy(), expected[name].numpy()
        if value.dtype == object:
            assert value.tolist() == other.tolist(), name
            continue
        if value.shape[: mask.ndim] == mask.shape:  # of tokens
            value, other = value[mask == 1], other[mask == 1]
        np.testing.assert_allclose(value, other, atol=1e-5, err_msg=name)


def assert_alike(one, other):
    """Compare two answers; one may have padding at the end."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            assert_alike(one[name], other[name])
    elif isinstance(one, list):
        size = min(len(one), len(other))
        # Padding of token vectors is not 0.
        has_vectors = size and isinstance(one[0], list) and isinstance(one[0][0], float)
        for padding in (one[size:], other[size:]):
            values = np.array(padding).ravel().tolist()
            assert not [x for x in values if x not in (0, "", -1)] or has_vectors
        for x, y in zip(one, other, strict=False):
            assert_alike(x, y)
    elif isinstance(one, float):
        assert one == pytest.approx(other, abs=2e-5)
    else:
        assert one == other


@pytest.fixture(scope="session")
def vocab_file(tmp_path_factory):
    return str(write_vocab(tmp_path_factory.mktemp("vocab")))


@pytest.fixture(scope="session")
def exported(vocab_file, tmp_path_factory):
    """A function from a task to the `Predictor` of an export with `BUCKETS`."""

    @functools.cache
    def export(task):
        serving_config = configs.ServingConfig(sequence_buckets=BUCKETS)
        servable = serving_models.make_servable(task, vocab_file, serving_config)
        return serving.Predictor(serving.export(servable, str(tmp_path_factory.mktemp(task))))

    return export


@pytest.fixture(scope="session")
def predictor(exported):
    """The `Predictor` of a classifier with the inputs `text` and `numbers`."""
    return exported("classification")


@pytest.fixture(scope="session")
def classifier(predictor):
    """The folder with the versions of that model."""
    return os.path.dirname(predictor.path)

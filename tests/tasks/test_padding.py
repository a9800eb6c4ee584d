"""Padding batches to their longest example keeps the results and makes few shapes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf import training
from bert_tf.data import input_pipeline, records
from bert_tf.modeling import BertClassifier, BertSpanLabeler
from bert_tf.tasks.classification.objective import ClassificationObjective
from bert_tf.tasks.question_answering.objective import QuestionAnsweringObjective
from bert_tf.tasks.question_answering.options import QuestionAnsweringConfig
from tests.common import QUICK_RUN, write_files, write_model
from tests.data.record_helpers import writing
from tests.tasks.task_helpers import small_config
from tests.training.training_helpers import mirrored, one_device

S = 24


def write_records(folder, count=40):
    """Write records of 2 to 20 tokens, mostly short; return the path."""
    rng = np.random.default_rng(0)
    path = str(folder / "train.tf_record")
    with writing([path], records.CLASSIFICATION) as write:
        for i in range(count):
            length = int(rng.integers(2, 9)) if i % 13 else 20
            ids = np.zeros(S, "int64")
            ids[:length] = rng.integers(1, 30, length)
            mask = (ids > 0).astype("int64")
            values = {"input_ids": ids, "input_mask": mask, "segment_ids": 0 * mask}
            write({**values, "label_ids": int(rng.integers(2)), "is_real_example": 1})
    return path


def make_input(input_class, path, multiple, **options):
    return input_class(
        [path], records.CLASSIFICATION, {"S": S}, 4, length_multiple=multiple, **options
    )


def test_batches_are_as_long_as_their_longest_text(tmp_path):
    path = write_records(tmp_path)
    pairs = zip(
        make_input(input_pipeline.TrainingInput, path, None, seed=3).batches().take(12),
        make_input(input_pipeline.TrainingInput, path, 8, seed=3).batches().take(12),
        strict=True,
    )
    lengths = set()
    for whole, short in pairs:
        length = short["input_ids"].shape[1]
        longest = int(tf.reduce_max(tf.reduce_sum(whole["input_mask"], 1)))
        assert longest <= length < longest + 8 and length % 8 == 0
        lengths.add(length)
        assert not tf.reduce_any(whole["input_mask"][:, length:] > 0)
        for name in ("input_ids", "input_mask", "segment_ids"):
            np.testing.assert_array_equal(short[name], whole[name][:, :length])
        np.testing.assert_array_equal(short["label_ids"], whole["label_ids"])
    assert lengths == {8, 24}


def test_masks_with_gaps():
    """Masks from other programs may start late or have gaps; no token is cut off."""
    batch = {"input_ids": tf.constant([[0, 5, 0, 6, 0, 0]]), "label_ids": tf.constant([1])}
    batch["input_mask"] = batch["segment_ids"] = tf.constant([[0, 1, 0, 1, 0, 0]])
    schema = records.CLASSIFICATION
    assert records.trim(batch, schema, 1)["input_ids"].numpy().tolist() == [[0, 5, 0, 6]]
    batch["input_mask"] *= 0
    assert records.trim(batch, schema, 1)["input_ids"].shape == (1, 1)


@pytest.mark.parametrize(("multiple", "max_shapes"), [(32, 4), (8, 1000)])
def test_documents_have_few_shapes_under_xla(multiple, max_shapes):
    """Only padding is cut off; single windows are cut as without XLA."""
    rng = np.random.default_rng(0)
    schema, shapes = records.windowed(records.CLASSIFICATION), set()
    for _ in range(60):
        counts = rng.integers(1, rng.integers(2, 17), 4)
        lengths = np.where(counts > 1, 128, rng.integers(2, 129, 4))
        mask = (np.arange(128) < lengths[:, None, None]) & (
            np.arange(16)[:, None] < counts[:, None, None]
        )
        batch = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), tf.cast(mask, tf.int32))
        short = records.trim({**batch, "label_ids": tf.zeros(4)}, schema, multiple)
        shapes.add(tuple(short["input_ids"].shape))
        assert tf.reduce_sum(short["input_mask"]) == mask.sum()
        if multiple == 8:
            assert short["input_ids"].shape[1:] == (counts.max(), -(-lengths.max() // 8) * 8)
    assert 1 < len(shapes) <= max_shapes


def test_length_multiple():
    engine = training.Engine(one_device())
    multiples = [engine.length_multiple(n, xla) for xla in (False, True) for n in (128, 70)]
    assert multiples == [8, 8, 32, 24]
    engine.strategy = tf.distribute.TPUStrategy.__new__(tf.distribute.TPUStrategy)
    assert engine.length_multiple(128, False) is None


@pytest.mark.parametrize(
    ("flags", "expected"), [([], 8), (["--pad_to_max_length", "--bucket_by_length"], None)]
)
def test_flag(run_script, experiments, tmp_path, flags, expected):
    write_files(tmp_path, train__tsv="text\tlabel\na\tx\nb\ty\n")
    log = run_script(
        "run_classifier", f"--data_dir={tmp_path}", "--task_name=tsv", "--do_train", *QUICK_RUN,
        *write_model(tmp_path), f"--output_dir={tmp_path}/out", *flags,
    )  # fmt: skip
    assert experiments[0].length_multiple == expected
    assert ("--bucket_by_length has no effect" in log) == (expected is None)


def test_masked_padding_has_no_effect_on_question_answering():
    """Unlike in the release, loss and best positions do not depend on the padded length."""
    rng = np.random.default_rng(1)
    mask = (np.arange(12) < np.array([[5], [8], [3]])).astype("int32")
    whole = {"input_ids": rng.integers(1, 30, (3, 12)) * mask, "input_mask": mask,
             "segment_ids": 0 * mask, "unique_ids": np.arange(3),
             "start_positions": np.array([1, 7, 0]),
             "end_positions": np.array([4, 7, 0])}  # fmt: skip
    whole = {name: tf.constant(x, tf.int32) for name, x in whole.items()}
    short = {name: x[:, :8] if x.shape.rank == 2 else x for name, x in whole.items()}
    for mask_padding in (True, False):
        keras.utils.set_random_seed(0)
        config = small_config(max_position_embeddings=S, initializer_range=0.5)
        objective = QuestionAnsweringObjective(
            BertSpanLabeler(config),
            QuestionAnsweringConfig(config, n_best_size=5),
            mask_padding=mask_padding,
        )
        losses, predictions = [], []
        for batch in (whole, short):
            outputs = objective.model(batch, training=False)
            losses.append(
                float(objective.losses(outputs, batch, objective.loss_weights(batch))["span_loss"])
            )
            predictions.append(objective.predictions(outputs, batch))
        if not mask_padding:
            assert losses[0] > losses[1] + 0.1
            continue
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
        for side in ("start", "end"):
            np.testing.assert_array_equal(predictions[0][side][:2], predictions[1][side][:2])
            assert int(tf.reduce_max(predictions[0][side][0])) < 5


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_batches_of_different_lengths_are_not_retraced(tmp_path, count):
    path = write_records(tmp_path, 120)
    engine = training.Engine(one_device() if count == 1 else mirrored(count))
    config = small_config(max_position_embeddings=S)
    loop = training.Loop(
        lambda: ClassificationObjective(BertClassifier(config, 2)), engine, str(tmp_path / "out")
    )
    data = make_input(input_pipeline.EvaluationInput, path, 1)
    assert len({batch["input_ids"].shape[1] for batch in data.batches()}) > 4
    loop.evaluate(data)
    assert loop._predict_step.experimental_get_tracing_count() <= 4

"""Masks drawn during training are valid, reproducible, and used by run_pretraining.py."""

import collections

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.data import dynamic_masking, input_pipeline, pretraining, records
from tests.common import tiny
from tests.data.pretraining_helpers import TOKENS, write_records

VOCAB = {token: index for index, token in enumerate(TOKENS)}
LENGTHS = {"S": 32, "P": 5}


@pytest.mark.slow
def test_masks_of_batches(corpus, tmp_path):
    config = pretraining.InstanceConfig(
        max_seq_length=32, max_predictions_per_seq=5, dupe_factor=1, dynamic_masking=True
    )
    instances = pretraining.create_instances(corpus, VOCAB, config)
    schema = records.pretraining_schema(has_masks=False)
    columns = pretraining.columns(instances, 0, len(instances), corpus, VOCAB, config)
    assert set(columns) == set(schema)
    path = str(tmp_path / "unmasked.tfrecord")
    pretraining.write([path], instances, corpus, VOCAB, config)
    masking = dynamic_masking.DynamicMasking(VOCAB, LENGTHS, 0.15, seed=3)
    data = input_pipeline.TrainingInput([path], schema, LENGTHS, 8, 3, masking=masking)
    unmasked = input_pipeline.TrainingInput([path], schema, LENGTHS, 8, 3)
    num_steps = 60
    assert len(instances) < 8 * num_steps  # includes a second epoch
    batches = list(data.batches().take(num_steps).as_numpy_iterator())
    originals = list(unmasked.batches().take(num_steps).as_numpy_iterator())
    actions = collections.Counter()
    for batch, original in zip(batches, originals, strict=True):
        assert set(batch) == set(records.PRETRAINING)
        for row in range(8):
            _check_row({name: x[row] for name, x in batch.items()}, original, row, actions)
    total = sum(actions.values())
    assert actions["mask"] / total == pytest.approx(0.8, abs=0.04)
    assert actions["keep"] / total == pytest.approx(0.1, abs=0.03)

    # Masks depend on the step, not on skipped steps.
    later = next(iter(data.batches(first_step=7).as_numpy_iterator()))
    assert all((later[name] == batches[7][name]).all() for name in later)
    # Each evaluation draws the same masks, on any number of replicas.
    evaluation = input_pipeline.EvaluationInput([path], schema, LENGTHS, 8, masking=masking)
    first, again = (list(evaluation.batches().as_numpy_iterator()) for _ in range(2))
    parts = evaluation.batches(tf.distribute.InputContext(1, 0, 3)).batch(3).as_numpy_iterator()
    for a, b, c in zip(first, again, parts, strict=True):
        assert all((x == b[name]).all() for name, x in a.items())
        assert all((x == np.concatenate(c[name])[:8]).all() for name, x in a.items())


def _check_row(values, original, row, actions):
    """Check the masks of an example against the unmasked example, and count the replacements."""
    ids, masked = original["input_ids"][row], values["input_ids"]
    count = int(values["masked_lm_weights"].sum())
    assert count == min(5, max(1, round(0.15 * original["input_mask"][row].sum())))
    positions = values["masked_lm_positions"]
    assert not positions[count:].any() and not values["masked_lm_ids"][count:].any()
    positions = positions[:count]
    assert positions.tolist() == sorted(set(positions.tolist()))
    assert (values["masked_lm_ids"][:count] == ids[positions]).all()
    assert not np.isin(ids[positions], [VOCAB["[CLS]"], VOCAB["[SEP]"]]).any()
    others = np.setdiff1d(np.arange(32), positions)
    assert (ids[others] == masked[others]).all()
    for position in positions:
        if masked[position] == VOCAB["[MASK]"]:
            actions["mask"] += 1
        else:
            actions["keep" if masked[position] == ids[position] else "random"] += 1


@pytest.mark.slow
def test_run_pretraining_without_pairs_and_masks(run_script, tmp_path):
    """Trains in two phases on `--objective=none` records; flags must match the records."""
    schema = records.pretraining_schema(has_next_sentence=False, has_masks=False)
    for length in (8, 12):
        path = tmp_path / f"data{length}.tfrecord"
        write_records(path, 16, length, schema)
    config = tiny(num_hidden_layers=1, vocab_size=len(TOKENS))
    (tmp_path / "config.json").write_text(config.to_json_string())
    (tmp_path / "vocab.txt").write_text("\n".join(TOKENS))
    flags = [f"--input_file={path}", f"--bert_config_file={tmp_path}/config.json", "--do_train",
             f"--output_dir={tmp_path}/out", "--max_seq_length=12", "--max_predictions_per_seq=2",
             f"--init_checkpoint={tmp_path}/short", "--distribution_strategy=one_device",
             "--num_train_steps=2", "--num_warmup_steps=1", "--train_batch_size=4", "--do_eval",
             "--eval_batch_size=5", "--objective=none"]  # fmt: skip
    masking = ["--dynamic_masking", f"--vocab_file={tmp_path}/vocab.txt"]
    run_script("run_pretraining", *flags, *masking, "--max_seq_length=8", "--init_checkpoint=",
               f"--output_dir={tmp_path}/short", f"--input_file={tmp_path}/data8.tfrecord",
               "--nodo_eval")  # fmt: skip
    # The second phase continues from the first with longer sequences.
    assert "short/model.ckpt-2" in run_script("run_pretraining", *flags, *masking)
    lines = (tmp_path / "out/eval_results.txt").read_text().splitlines()
    assert [line.split()[0] for line in lines] == [
        "global_step", "loss", "masked_lm_accuracy", "masked_lm_loss"
    ]  # fmt: skip
    with pytest.raises(bert_tf.UserError, match=r"data12\.tfrecord.* masked_lm_positions"):
        run_script("run_pretraining", *flags)

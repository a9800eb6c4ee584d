"""The records of a pre-training run, which are checked before it starts."""

import types

import pytest

from bert_tf import UserError, configs
from bert_tf.data import records
from bert_tf.training.pretraining import make_inputs
from tests.common import TINY
from tests.data.pretraining_helpers import write_records

MODEL = types.SimpleNamespace(bert_config=TINY, config_file=None, vocab_file=None)


def read(folder, model=MODEL, **options):
    """Return the inputs of a run on all records in a folder."""
    config = configs.PretrainingConfig(
        f"{folder}/x-*", "out", max_seq_length=8, max_predictions_per_seq=2, do_train=True,
        **options,
    )  # fmt: skip
    return make_inputs(config, model)


def test_all_files_are_checked(tmp_path):
    """A masked file would go unnoticed with dynamic masking."""
    unmasked = records.pretraining_schema(has_masks=False)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrst"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n")
    for i in range(25):
        write_records(tmp_path / f"x-{i:05d}-of-00025", 2, schema=unmasked)
    write_records(tmp_path / "x-00009-of-00025", 2)
    model = types.SimpleNamespace(**{**vars(MODEL), "vocab_file": f"{tmp_path}/vocab.txt"})
    message = "x-00009-of-00025: found records with masked_lm_ids, but `dynamic_masking`"
    with pytest.raises(UserError, match=message):
        read(tmp_path, model, dynamic_masking=True)
    for i in range(25):
        write_records(tmp_path / f"x-{i:05d}-of-00025", 2, 12 if i == 9 else 8)
    message = r"x-00009-of-00025: input_ids has length 12, expected 8; see `max_seq_length`$"
    with pytest.raises(UserError, match=message):
        read(tmp_path)


def test_streams_need_files_with_records(tmp_path):
    for i in range(6):
        write_records(tmp_path / f"x-{i:05d}-of-00006", 2)

    train = configs.TrainConfig(train_batch_size=12)

    def check(count):
        options = {"train": train, "eval_file": f"{tmp_path}/x-00000-of-00006"}
        return read(tmp_path, num_input_streams=count, **options)[0]

    fingerprint = check(3).fingerprint
    assert len(fingerprint) == 3 and fingerprint[0] == 6, "without the file of the evaluation"
    for i in (1, 4):
        (tmp_path / f"x-{i:05d}-of-00006").write_bytes(b"")
    check(2)
    with pytest.raises(UserError, match="`num_input_streams=3`: all files of a stream are empty"):
        check(3)

"""A model folder for the tests of checkpoints."""

import numpy as np
import pytest

from bert_tf import checkpoints
from bert_tf.modeling import BertPretrainer
from tests.common import TINY, WORDS, write_release


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """The path of a model folder in the release's layout, with optimizer state."""
    folder = tmp_path_factory.mktemp("release")
    model = BertPretrainer(TINY)
    values = checkpoints.tensors(model)
    slots = {f"{n}/{slot}": v * 2 for n, v in values.items() for slot in ("adam_m", "adam_v")}
    step = {"global_step": np.int64(7)}
    write_release(folder, model, WORDS[:2])
    checkpoints.write(str(folder / "bert_model.ckpt"), {**values, **slots, **step})
    return str(folder)

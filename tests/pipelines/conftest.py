"""Checks for every pipeline, and small models with random weights."""

import keras
import numpy as np
import pytest

import bert_tf
from bert_tf import checkpoints, serving
from bert_tf.modeling import BertPretrainer
from bert_tf.tasks.registry import load_config
from tests.common import WITHOUT_DROPOUT, WORDS, tiny, write_release
from tests.pipelines.pipeline_texts import LINES, TOKENS, encode
from tests.serving.conftest import assert_alike


def run_pipeline_test(pipeline, inputs, folder, *, served=None, names=None, **options):
    """Check the predictions of a pipeline, of its saved copy and of its exported model.

    There is one answer per input. The saved pipeline has the same options and answers. Saving
    overwrites files only on request.

    Args:
      pipeline: the pipeline.
      inputs: dict from input columns of the exported model to lists, the arguments of `predict`.
      folder: an empty `pathlib.Path`; `saved` and `served` are written there.
      served: function that converts an answer of the exported model, if it has another form.
      names: keys of the other answers of the exported model to compare, None for all.
      **options: options of `from_preset` that are not saved.

    Returns:
      The pipeline from the saved folder.
    """
    expected = list(pipeline.predict(*inputs.values()))
    assert [len(x) for x in inputs.values()] == [len(expected)] * len(inputs)
    assert not len(list(pipeline.predict(*([] for _ in inputs))))
    pipeline.save_to_preset(folder / "saved")
    if pipeline.pretrained_head is None:
        spec, config = load_config(str(folder / "saved"))
        assert spec is type(pipeline) and config.to_json() == pipeline.config.to_json()
    loaded = type(pipeline).from_preset(folder / "saved", **options)
    assert list(loaded.predict(*inputs.values())) == expected
    with pytest.raises(bert_tf.UserError, match=r"`folder`: .* already exists.*overwrite=True"):
        pipeline.save_to_preset(folder / "saved")
    with pytest.raises(bert_tf.UserError, match="found no model in"):
        pipeline.save_to_preset(folder, overwrite=True)
    pipeline.save_to_preset(folder / "saved", overwrite=True)

    pytest.importorskip("tensorflow_text")
    exported = pipeline.export(folder / "served", warm_up=False)
    assert exported == str(folder / "served" / "1")
    rows = [dict(zip(inputs, row, strict=True)) for row in zip(*inputs.values(), strict=True)]
    for answer, other in zip(serving.Predictor(exported)(rows), expected, strict=True):
        if served:
            assert_alike(served(answer), other)
        else:
            assert_alike(*({name: x[name] for name in names or other} for x in (answer, other)))
    return loaded


def write_release_folder(folder, config):
    """Write a release folder with random weights, a vocabulary and texts.txt."""
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    model = BertPretrainer(config)
    for variable in checkpoints.weights(model).values():
        variable.assign_add(0.3 * rng.normal(size=variable.shape).astype("float32"))
    (folder / "texts.txt").write_text("".join(f"{line}\n" for line in LINES))
    return write_release(folder, model)


def model_outputs(folder):
    """Return (all layers, embedding output) of each line, computed without padding."""
    model = bert_tf.BertModel.from_preset(str(folder))
    outputs = []
    for tokens in TOKENS:
        ids, segment_ids = encode(tokens)
        inputs = {"input_ids": ids, "input_mask": [1] * len(ids), "segment_ids": segment_ids}
        values = model({name: np.int32([x]) for name, x in inputs.items()})
        layers = [x.numpy()[0] for x in values["all_encoder_layers"]]
        outputs.append((layers, values["embedding_output"].numpy()[0]))
    return outputs


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    """A release folder of a model with 2 layers."""
    return write_release_folder(tmp_path_factory.mktemp("model"), tiny(vocab_size=len(WORDS)))


@pytest.fixture(scope="session")
def deep_model_folder(tmp_path_factory):
    """A release folder of a model with 5 layers, for combinations of four layers."""
    config = tiny(vocab_size=len(WORDS), num_hidden_layers=5)
    return write_release_folder(tmp_path_factory.mktemp("deep_model"), config)


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory):
    """A release folder to fine-tune: 1 layer, 32 positions, no dropout."""
    sizes = {"vocab_size": len(WORDS), "num_hidden_layers": 1, "max_position_embeddings": 32}
    config = tiny(**sizes, **WITHOUT_DROPOUT)
    return write_release_folder(tmp_path_factory.mktemp("encoder"), config)


@pytest.fixture(scope="session")
def outputs(model_folder):
    """`model_outputs` of the 2-layer model."""
    return model_outputs(model_folder)

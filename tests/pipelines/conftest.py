"""Small models with random weights, for the tests of the pipelines."""

import keras
import numpy as np
import pytest

import bert_tf
from bert_tf import checkpoints
from bert_tf.modeling import BertPretrainer
from tests.pipelines.pipeline_texts import LINES, TOKENS, encode


def write_release_folder(folder, config):
    """Write a folder of the release with random weights, a vocabulary and texts.txt."""
    from tests.common import write_vocab

    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    tensors = {
        name: v.numpy() + 0.3 * rng.normal(size=v.shape).astype("float32")
        for name, v in checkpoints.weights(BertPretrainer(config)).items()
    }
    checkpoints.write(str(folder / "bert_model.ckpt"), tensors)
    (folder / "bert_config.json").write_text(config.to_json_string())
    (folder / "texts.txt").write_text("".join(f"{line}\n" for line in LINES))
    write_vocab(folder)
    return folder


def model_outputs(folder):
    """Return (all layers, embedding output) for each line, computed without padding."""
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
def model_folder(tmp_path_factory, tiny_config, tiny_words):
    """A release folder of a model with 2 layers."""
    config = {**tiny_config.to_dict(), "vocab_size": len(tiny_words)}
    folder = tmp_path_factory.mktemp("model")
    return write_release_folder(folder, bert_tf.BertConfig.from_dict(config))


@pytest.fixture(scope="session")
def deep_model_folder(tmp_path_factory, tiny_config, tiny_words):
    """A release folder of a model with 5 layers, for combinations of four layers."""
    config = {**tiny_config.to_dict(), "vocab_size": len(tiny_words), "num_hidden_layers": 5}
    folder = tmp_path_factory.mktemp("deep_model")
    return write_release_folder(folder, bert_tf.BertConfig.from_dict(config))


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory, tiny_config, tiny_words):
    """A release folder of a model with 1 layer, 32 positions and no dropout, to be fine-tuned."""
    changes = {
        "vocab_size": len(tiny_words),
        "num_hidden_layers": 1,
        "max_position_embeddings": 32,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    config = bert_tf.BertConfig.from_dict({**tiny_config.to_dict(), **changes})
    return write_release_folder(tmp_path_factory.mktemp("encoder"), config)


@pytest.fixture(scope="session")
def outputs(model_folder):
    """`model_outputs` of the 2-layer model."""
    return model_outputs(model_folder)


@pytest.fixture(scope="session")
def deep_outputs(deep_model_folder):
    """`model_outputs` of the 5-layer model."""
    return model_outputs(deep_model_folder)


@pytest.fixture(scope="session")
def model_and_tokenizer(model_folder):
    """The 2-layer `BertModel` and its `FullTokenizer`."""
    pipeline = bert_tf.SentenceEncoder.from_preset(str(model_folder), max_seq_length=12)
    return pipeline.model, pipeline.tokenizer


@pytest.fixture(scope="session")
def deep_model_and_tokenizer(deep_model_folder):
    """The 5-layer `BertModel` and its `FullTokenizer`."""
    path = str(deep_model_folder / "bert_model.ckpt")
    pipeline = bert_tf.SentenceEncoder.from_preset(path, max_seq_length=12)
    return pipeline.model, pipeline.tokenizer

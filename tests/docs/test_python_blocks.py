"""The Python blocks of README.md and docs/, run in their order on small models."""

import json
import types

import pages
import pytest
import tensorflow as tf
from test_rehearsal import SMALL, lay_models

import bert_tf
from bert_tf import serving, tasks
from bert_tf.tasks import question_answering as squad
from bert_tf.tasks import token_classification as tagging

pytest.importorskip("tensorflow_text")

# Blocks that are compiled and not run, known by a part of them, and why.
NOT_RUN = {"grpc.insecure_channel": "it asks a server"}
LENGTH = 24
COMMON = (True, bert_tf.BertConfig(**SMALL), "vocab.txt")


def servables():
    """From the folder that a block loads to a function that makes its `Servable`.

    That a SavedModel answers as its `Servable` is for test_servables.py.
    """
    config, options = COMMON[1], serving.Options()

    def pairs():
        known = tasks.Settings(("0", "1"), LENGTH, *COMMON, "classification", num_texts=2)
        return serving.classification_servable(bert_tf.BertClassifier(config, 2), known, options)

    def spans():
        known = squad.SpanSettings(
            squad.WindowConfig(LENGTH, 8, 8), squad.DecodingConfig(), *COMMON
        )
        return serving.question_answering_servable(bert_tf.BertSpanLabeler(config), known, options)

    def tagged():
        tags = tagging.Tags(("O", "B-PER", "I-PER"), "iob2", "iob2")
        known = tagging.TagSettings(tagging.WindowConfig(LENGTH), tags, *COMMON)
        return serving.token_classification_servable(
            bert_tf.BertTokenClassifier(config, 3), known, options
        )

    def chosen():
        known = tasks.choice.ChoiceSettings(LENGTH, *COMMON)
        return serving.multiple_choice_servable(bert_tf.BertMultipleChoice(config), known, options)

    def vectors():
        model, tokenizer = bert_tf.BertModel(config), bert_tf.FullTokenizer("vocab.txt")
        encoder = bert_tf.SentenceEncoder(model, tokenizer, max_seq_length=LENGTH)
        return serving.sentence_embedding_servable(encoder, options)

    return {"/tmp/mrpc_model": pairs, "/tmp/squad_model": spans, "/tmp/ner": tagged,
            "choices_model": chosen, "export": vectors}  # fmt: skip


def load(path):
    """In the place of `tf.saved_model.load`: what has the model's signature and its answers."""
    servable = servables()[path.removesuffix("/1")]()

    def serve(**inputs):
        assert set(inputs) == set(servable.text_signature), path
        for name, spec in servable.text_signature.items():
            assert spec.is_compatible_with(inputs[name]), f"{path}: {name}"
        return servable.serve_text(inputs)

    return types.SimpleNamespace(signatures={"serving_default": serve})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder that the blocks run in, with what they read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tf.saved_model, "load", load)
    lay_models(tmp_path / "cache", monkeypatch)
    one = tmp_path / "cache" / "uncased_L-12_H-768_A-12"
    for path in one.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    question = {"id": "1", "question": "a", "answers": [{"text": "fine", "answer_start": 2}]}
    paragraph = {"context": "a fine inn", "qas": [question]}
    articles = {"version": "1.1", "data": [{"title": "a", "paragraphs": [paragraph]}]}
    (tmp_path / "dev-v1.1.json").write_text(json.dumps(articles))
    vectors = bert_tf.pipelines.TokenVectors.from_preset(one.name, max_seq_length=LENGTH)
    with bert_tf.pipelines.vector_writer("output.tfrecord", "tfrecord") as write:
        for text in vectors(["a fine inn"]):
            write(text)
    return tmp_path


def test_blocks_run(root, folder):
    spaces, ran = {}, 0
    for block in pages.blocks(root):
        if block.language != "python" or any(part in block.text for part in NOT_RUN):
            continue
        ids = tf.constant([[2, 5, 3]])
        # What blocks speak of without having made it.
        given = {"ids": ids, "mask": tf.ones_like(ids), "segments": tf.zeros_like(ids),
                 "texts": ["a fine inn", "b"], "pairs": ["c", ""], "text": "a fine inn",
                 "bert_tf": bert_tf, "tf": tf}  # fmt: skip
        space = spaces.setdefault(block.page, given)
        try:
            exec(compile(block.text, block.place, "exec"), space)
        except Exception as error:
            raise AssertionError(f"{block.place}: {error!r}") from error
        ran += 1
    assert ran > 10
    check_task(spaces["docs/architecture.md"]["PairTask"])


def check_task(make):
    """The task of architecture.md learns, by the loop's own step."""
    task = make(COMMON[1])
    ids = tf.constant([[2, 5, 3], [2, 6, 3]])
    batch = {"input_ids": ids, "input_mask": tf.ones_like(ids), "segment_ids": tf.zeros_like(ids),
             "label_ids": tf.constant([0, 1])}  # fmt: skip
    outputs = task.model(batch)
    losses = task.losses(outputs, batch, task.loss_weights(batch))
    assert list(losses) == list(task.loss_names)
    found = task.metrics({k: v.numpy() for k, v in task.predictions(outputs, batch).items()})
    assert list(found) == list(task.metric_names)
    assert found["loss"] == pytest.approx(float(losses["pair_loss"]), rel=1e-5)

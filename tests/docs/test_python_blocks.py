"""The Python blocks of README.md and docs/ run in order on small models."""

import json
import os
import shutil
import types

import pytest
import tensorflow as tf

import bert_tf
from bert_tf import configs
from bert_tf.io import files
from bert_tf.tasks.classification.options import ClassificationConfig
from bert_tf.tasks.classification.served import classification_servable
from bert_tf.tasks.multiple_choice.options import MultipleChoiceConfig
from bert_tf.tasks.multiple_choice.served import multiple_choice_servable
from bert_tf.tasks.question_answering.options import QuestionAnsweringConfig
from bert_tf.tasks.question_answering.served import question_answering_servable
from bert_tf.tasks.registry import TASKS
from bert_tf.tasks.sentence_embedding.options import SentenceEmbeddingConfig
from bert_tf.tasks.sentence_embedding.served import sentence_embedding_servable
from bert_tf.tasks.sentence_embedding.task import make_model
from bert_tf.tasks.token_classification.options import Tags, TokenClassificationConfig
from bert_tf.tasks.token_classification.served import token_classification_servable
from examples import toy_corpus
from tests.docs import pages
from tests.docs.test_rehearsal import SMALL, write_glue, write_presets

pytest.importorskip("tensorflow_text")

# Blocks that are only compiled: a substring of each, and the reason.
NOT_RUN = {
    "localhost:850": "test_requests.py runs it",
    "squad_2018": "its export requires AutoGraph, which is off here",
    "TopicsTask": "test_new_task.py runs it",
    "TopicsConfig(": "test_new_task.py runs the like",
}
LENGTH = 24
COMMON = (bert_tf.BertConfig(**SMALL), "vocab.txt", True, LENGTH)


def servables():
    """Return a dict from a folder that a block loads to a function that makes its `Servable`.

    test_servables.py checks that a SavedModel gives the answers of its `Servable`.
    """
    config, options = COMMON[0], configs.ServingConfig()

    def classifier():
        task_config = ClassificationConfig(*COMMON, labels=("0", "1"))
        model = bert_tf.BertClassifier(config, 2)
        return classification_servable(model, task_config, options)

    def span_labeler():
        task_config = QuestionAnsweringConfig(*COMMON, doc_stride=8, max_query_length=8)
        model = bert_tf.BertSpanLabeler(config)
        return question_answering_servable(model, task_config, options)

    def token_classifier():
        tags = Tags(("O", "B-PER", "I-PER"), "iob2", "iob2")
        task_config = TokenClassificationConfig(*COMMON, tags=tags)
        model = bert_tf.BertTokenClassifier(config, 3)
        return token_classification_servable(model, task_config, options)

    def multiple_choice():
        model = bert_tf.BertMultipleChoice(config)
        task_config = MultipleChoiceConfig(*COMMON)
        return multiple_choice_servable(model, task_config, options)

    def sentence_encoder():
        task_config = SentenceEmbeddingConfig(*COMMON, pooling="mean", normalize=False)
        return sentence_embedding_servable(make_model(task_config), task_config, options)

    return {
        "/tmp/mrpc_model": classifier,
        "/tmp/squad_model": span_labeler,
        "/tmp/ner": token_classifier,
        "choices_model": multiple_choice,
        "export": sentence_encoder,
        "/models/embeddings": sentence_encoder,
    }


def load(path, real=tf.saved_model.load):
    """Replace `tf.saved_model.load`: check the inputs of the signature and run the `Servable`.

    A folder that an earlier block exported is really loaded.
    """
    if os.path.isdir(path):
        return real(path)
    servable = servables()[path.removesuffix("/1")]()

    def serve(**inputs):
        assert set(inputs) == set(servable.text_signature), path
        for name, spec in servable.text_signature.items():
            assert spec.is_compatible_with(inputs[name]), f"{path}: {name}"
        return servable.serve_text(inputs)

    return types.SimpleNamespace(signatures={"serving_default": serve})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder of the blocks, with their input files."""
    monkeypatch.chdir(tmp_path)
    write_presets(tmp_path / "cache", monkeypatch)
    write_glue(tmp_path / "glue_data")
    toy_corpus.write(tmp_path / "toy", corpus=1, heldout=1, train=20, dev=4, test=4)
    (tmp_path / "tmp").mkdir()
    preset = tmp_path / "cache" / "uncased_L-12_H-768_A-12"
    for path in preset.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    question = {"id": "1", "question": "a", "answers": [{"text": "fine", "answer_start": 2}]}
    paragraph = {"context": "a fine inn", "qas": [question]}
    articles = {"version": "1.1", "data": [{"title": "a", "paragraphs": [paragraph]}]}
    (tmp_path / "dev-v1.1.json").write_text(json.dumps(articles))
    # Functions are called once, so tracing would take most of the time.
    tf.config.run_functions_eagerly(True)
    registries = [(registry, dict(registry)) for registry in (TASKS, files.TASK_CONFIG_FILES)]
    yield tmp_path
    tf.config.run_functions_eagerly(False)
    for registry, before in registries:  # a page registers a task
        registry.clear()
        registry.update(before)


# Pages whose blocks train.
LONG_PAGES = (
    "README.md", "index.md", "architecture.md", "fine_tune_in_python.md", "from_others.md",
    "keras_models.md", "keras_optimizers.md", "serving_clients.md", "from_model_fn.md",
    "your_dataframe.md",
)  # fmt: skip


@pytest.mark.parametrize("is_long", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_blocks_run(root, folder, monkeypatch, is_long):
    namespaces, num_run, failures = {}, 0, []
    for block in pages.blocks(root):
        if str(block.page).endswith(LONG_PAGES) != is_long:
            continue
        if block.language != "python" or any(part in block.text for part in NOT_RUN):
            continue
        if block.page not in namespaces:  # several pages save the same classifier
            shutil.rmtree("sentiment", ignore_errors=True)
        namespace = namespaces.setdefault(block.page, {})
        # Patched for every block, because an export replaces the lazily loaded module.
        monkeypatch.setattr(tf.saved_model, "load", load)
        try:
            text = block.text.replace('"/tmp/mrpc"', '"tmp/mrpc"')
            code = compile(text, block.place, "exec")
            tf.autograph.experimental.do_not_convert(exec)(code, namespace)
        except Exception as error:
            failures.append(f"{block.place}: {error!r}")
        num_run += 1
    assert not failures, "\n".join(failures)
    assert num_run > 5

"""The Python blocks of README.md and docs/ run in order on small models."""

import os
import shutil
import types
from unittest import mock

import pytest
import tensorflow as tf

import bert_tf
from bert_tf import configs
from bert_tf.configs.task_names import TASK_CONFIG_FILES
from bert_tf.tasks.registry import TASKS
from bert_tf.tasks.token_classification.options import Tags
from examples import toy_corpus
from tests.docs import pages
from tests.docs.test_rehearsal import SMALL, write_glue, write_presets, write_squad

pytest.importorskip("tensorflow_text")

# Blocks that are only compiled: a substring of each, and the reason.
NOT_RUN = {
    "localhost:850": "test_requests.py runs it",
    "http.server": "test_onnx.py runs it",
    "TopicsConfig(": "test_new_task.py runs the like",
}
# Folders that blocks load: the task of the model, and its configuration.
MODELS = {
    "/tmp/mrpc_model": ("classification", {"labels": ("0", "1")}),
    "/tmp/ner": ("token_classification", {"tags": Tags(("O", "B-PER", "I-PER"), "iob2", "iob2")}),
    "export": ("sentence_embedding", {"pooling": "mean", "normalize": False}),
    "/models/embeddings": ("sentence_embedding", {"pooling": "mean", "normalize": False}),
}


def load(path, real=tf.saved_model.load):
    """Replace `tf.saved_model.load`: check the inputs of the signature and run the `Servable`.

    A folder that an earlier block exported is really loaded. test_servables.py checks that a
    SavedModel gives the answers of its `Servable`.
    """
    if os.path.isdir(path):
        return real(path)
    task, options = MODELS[path.removesuffix("/1")]
    spec = TASKS[task]
    options = {"max_seq_length": 24, **options}
    config = spec.config_class(bert_tf.BertConfig(**SMALL), "vocab.txt", **options)
    servable = spec.make_servable(spec.make_model(config), config, configs.ServingConfig())

    def serve(**inputs):
        assert set(inputs) == set(servable.text_signature), path
        for name, spec in servable.text_signature.items():
            assert spec.is_compatible_with(inputs[name]), f"{path}: {name}"
        return servable.serve_text(inputs)

    return types.SimpleNamespace(signatures={"serving_default": serve})


@pytest.fixture
def folder(tmp_path, monkeypatch, eagerly):
    """The working folder of the blocks, with their input files; functions are called once."""
    monkeypatch.chdir(tmp_path)
    write_presets(tmp_path / "cache", monkeypatch)
    write_glue(tmp_path / "glue_data")
    toy_corpus.write(tmp_path / "toy", corpus=1, heldout=1, train=20, dev=4, test=4)
    (tmp_path / "tmp").mkdir()
    preset = tmp_path / "cache" / "uncased_L-12_H-768_A-12"
    shutil.copytree(preset, tmp_path, dirs_exist_ok=True)
    write_squad(tmp_path / "dev-v1.1.json", 1)
    # A page registers a task.
    with mock.patch.dict(TASKS), mock.patch.dict(TASK_CONFIG_FILES):
        yield tmp_path


# Pages whose blocks train.
LONG_PAGES = (
    "README.md", "classification.md", "from_others.md", "keras.md", "docs/serving.md",
    "sentences.md", "tagging.md",
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

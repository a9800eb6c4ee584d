"""A tiny model, its vocabulary and helpers, for the tests of every package."""

import contextlib
import csv
import hashlib
import http.server
import io
import os
import pathlib
import subprocess
import sys
import threading
import types

import numpy as np

import bert_tf

TINY = bert_tf.BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
    intermediate_size=32, max_position_embeddings=12, type_vocab_size=2,
)  # fmt: skip
WITHOUT_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def tiny(**changes):
    """Return `TINY` with changes."""
    return bert_tf.BertConfig.from_dict({**TINY.to_dict(), **changes})


NO_DROPOUT = tiny(**WITHOUT_DROPOUT)
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij", *(f"##{c}" for c in "abc")]

# Flags that keep a run of a fine-tuning script short.
QUICK_RUN = ["--max_seq_length=8", "--train_batch_size=4", "--distribution_strategy=one_device"]


def features(batch=3, length=8, seed=0):
    """Return random inputs of `BertPretrainer(TINY)`, padded to different lengths."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, length + 1, size=(batch, 1))
    mask = (np.arange(length) < lengths).astype("int32")
    return {
        "input_ids": (rng.integers(1, 50, (batch, length)) * mask).astype("int32"),
        "input_mask": mask,
        "segment_ids": (rng.integers(0, 2, (batch, length)) * mask).astype("int32"),
        "masked_lm_positions": rng.integers(0, 3, (batch, 2)).astype("int32"),
    }


def enlarge_weights(model):
    """Multiply the matrices of a model by 10, and switch off the dropout before its head."""
    for weight in model.trainable_variables:
        if weight.path.endswith(("kernel", "output_weights")):
            weight.assign(10 * weight.value)
    for layer in model.layers:
        if isinstance(layer, bert_tf.modeling.Dropout):
            layer.rate = 0.0


def write_vocab(folder, words=WORDS):
    """Write vocab.txt and return its path."""
    path = folder / "vocab.txt"
    path.write_text("\n".join(words) + "\n")
    return path


def write_model(folder, config=TINY, words=WORDS, **changes):
    """Write config.json, with `changes`, and vocab.txt; return the flags that name them.

    Dropout is off, since a model this small hardly learns with it.
    """
    values = {**config.to_dict(), **WITHOUT_DROPOUT, **changes}
    config = bert_tf.BertConfig.from_dict(values)
    (folder / "config.json").write_text(config.to_json_string())
    # A vocabulary must have at least half as many entries as the model.
    missing = config.vocab_size // 2 - len(words)
    write_vocab(folder, [*words, *(f"[filler{i}]" for i in range(missing))])
    return model_flags(folder)


def write_release(folder, model, words=WORDS):
    """Write a folder of the release: checkpoint, config and vocabulary; return the folder."""
    from bert_tf import checkpoints

    checkpoints.write(str(folder / "bert_model.ckpt"), checkpoints.tensors(model))
    (folder / "bert_config.json").write_text(model.config.to_json_string())
    write_vocab(folder, words)
    return folder


def write_hugging_face(folder, model, words=WORDS, **options):
    """Write a Hugging Face folder, see `checkpoints.write_hugging_face`; return its path."""
    from bert_tf import checkpoints

    vocab_file = str(write_vocab(folder.parent, words))
    tensors = checkpoints.tensors(model)
    checkpoints.write_hugging_face(str(folder), tensors, model.config, vocab_file, **options)
    return str(folder)


def model_flags(folder):
    """Return the flags for the files of `write_model`."""
    return [f"--vocab_file={folder}/vocab.txt", f"--bert_config_file={folder}/config.json"]


def read_tensors(path):
    """Return the tensors of a checkpoint of the release as a dict of arrays."""
    from bert_tf import checkpoints

    source = checkpoints.ReleaseCheckpoint(str(path))
    return {name: source.tensor(name) for name in source.shapes}


def read_results(path):
    """Return the `name = value` lines of a results file as a dict of str."""
    return dict(line.split(" = ") for line in path.read_text().splitlines())


def read_table(path):
    """Return the rows of a tab-separated file as lists of str."""
    with open(path, encoding="utf-8", newline="") as reader:
        return list(csv.reader(reader, delimiter="\t", quoting=csv.QUOTE_NONE))


def digests(folder):
    """Return a dict from the relative path of each file to its digest."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).digest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def python_process(*arguments, cwd=None, **environment):
    """Run Python in a process of its own; return the `CompletedProcess`."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def run_python(*arguments, **options):
    """Run Python as `python_process` does; it must succeed. Return what it prints."""
    done = python_process(*arguments, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Handler(http.server.BaseHTTPRequestHandler):
    """A handler for `http_server` that logs nothing."""

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def http_server(handler):
    """Yield a server on a free port of this machine, which runs in a thread."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def read_data(source, splits, stored=None, skip_bad_rows=False):
    """Return the examples, labels and numeric features of `classification.read_splits`."""
    # Imports TensorFlow, without which test_jax.py runs.
    from bert_tf.tasks.classification.source import read_splits

    values = read_splits(source, splits, stored, skip_bad_rows)
    names = ("examples", "labels", "numeric_features")
    return types.SimpleNamespace(**dict(zip(names, values, strict=True)))


def read_examples(dataset, data_dir, split, path=None, bad=None):
    """Return the examples of a split of a dataset, from `data_dir` unless `path` is given."""
    from bert_tf.tasks.classification.source import FileSource

    return FileSource(dataset, data_dir, {split: path}).read(split, bad)


def write_tfds(folder, name, features, splits, keys=None, version="1.0.0"):
    """Write a dataset of tensorflow-datasets, given a dict from split to tuples of features."""
    import tensorflow_datasets as tfds

    name, _, config = name.partition("/")
    # Not registered, because a fixture may run twice in one process.
    with tfds.core.registered.skip_registration():

        class Builder(tfds.core.GeneratorBasedBuilder):
            VERSION = tfds.core.Version(version)
            BUILDER_CONFIGS = [tfds.core.BuilderConfig(name=config)] if config else []
            pkg_dir_path = pathlib.Path(folder)

            def _info(self):
                return tfds.core.DatasetInfo(
                    builder=self,
                    features=tfds.features.FeaturesDict(features),
                    supervised_keys=keys,
                    disable_shuffling=True,
                )

            def _split_generators(self, dl_manager):
                return {split: self._generate_examples(rows) for split, rows in splits.items()}

            def _generate_examples(self, rows):
                for number, row in enumerate(rows):
                    yield number, dict(zip(features, row, strict=True))

    Builder.name = name
    with contextlib.redirect_stderr(io.StringIO()):
        Builder(data_dir=str(folder)).download_and_prepare()


def write_files(folder, **texts):
    """Write files named with "__" for the dot, such as `train__tsv`; return the folder as str."""
    for name, text in texts.items():
        data = text if isinstance(text, bytes) else text.encode()
        (folder / name.replace("__", ".")).write_bytes(data)
    return str(folder)


def write_mnli(folder):
    """Write the files of MNLI with one row each; return the folder as str."""
    head = ["index", *"xxxxxxx", "sentence1", "sentence2"]
    row = ["0", *"xxxxxxx"]

    def text(names, *cells):
        return "\t".join([*head, *names]) + "\n" + "\t".join([*row, *cells]) + "\n"

    five = ["label1", "label2", "label3", "label4", "label5"]
    others = ["neutral"] * 5
    return write_files(
        folder,
        train__tsv=text(["label1", "gold_label"], "A", "B", "neutral", "contradiction"),
        dev_matched__tsv=text([*five, "gold_label"], "M", "B", *others, "entailment"),
        dev_mismatched__tsv=text([*five, "gold_label"], "MM", "B", *others, "contradiction"),
        test_matched__tsv=text([], "TM", "B"),
        test_mismatched__tsv=text([], "TMM", "B"),
    )

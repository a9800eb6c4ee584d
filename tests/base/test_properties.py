"""Any input of a user or a client gives a result or a `UserError`, never another exception.

By default each property is checked on the same few generated inputs. With `-m slow` it is checked
on many random inputs; a failure prints the seed, and BERT_TF_TEST_SEED repeats it.
"""

import dataclasses
import functools
import itertools
import json
import math
import os
import pathlib
import random
import typing

import hypothesis
import pytest
import tensorflow as tf
from hypothesis import strategies as st

import bert_tf
from bert_tf import configs
from bert_tf.checkpoints.metadata import read_labels
from bert_tf.configs.task import DataOptions
from bert_tf.configs.train import BatchConfig, FitConfig
from bert_tf.io import files, json_files, processes
from bert_tf.tasks.classification.glue import custom_dataset
from bert_tf.tasks.registry import TASKS
from bert_tf.tasks.token_classification.options import Tags
from bert_tf.training import checkpointing
from tests.common import TINY, read_examples

_FEW, _MANY = 10, 400

# A subset of Unicode: hypothesis needs seconds to build the tables for all of it.
TEXT = st.text('ab01 {}[]",:\\\t\r\n\0\x1cé\u0301Σ中\u2028\ufeff\U0001f600\ud800', max_size=20)
NUMBERS = (
    st.integers() | st.floats() | st.sampled_from([0, -1, 2**31, 2**63, 10**400, 1e308, math.nan])
)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXT
JSON = st.recursive(
    SCALARS,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(TEXT, values, max_size=3),
    max_leaves=5,
)


@pytest.fixture(params=[_FEW, pytest.param(_MANY, marks=pytest.mark.slow)])
def holds(request):
    """A function that runs `check(*values)` on values drawn from strategies."""
    seed = os.environ.get("BERT_TF_TEST_SEED")
    if not seed:
        # The default suite is deterministic.
        seed = random.SystemRandom().randrange(2**32) if request.param == _MANY else 0
    print(f"BERT_TF_TEST_SEED={seed}")

    def run(check, *strategies):
        settings = hypothesis.settings(
            max_examples=request.param, deadline=None, database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )  # fmt: skip
        hypothesis.seed(int(seed))(settings(hypothesis.given(*strategies)(check)))()

    return run


def changed(values):
    """Return a strategy of JSON objects that differ from `values` in up to two fields."""
    names = st.sampled_from([*values, "other"])
    changes = st.dictionaries(names, JSON, min_size=1, max_size=2)
    lost = st.sets(st.sampled_from(list(values)), max_size=1)
    return st.builds(
        lambda changes, lost: {k: v for k, v in {**values, **changes}.items() if k not in lost},
        changes,
        lost,
    )


def is_accepted(function, *arguments, errors=(bert_tf.UserError,)):
    """Return True if the function returns, False if it raises an error of one line."""
    try:
        function(*arguments)
    except errors as error:
        assert len(str(error).splitlines()) == 1 or "\n" in str(arguments), error
        return False
    return True


TAGS = Tags(("O", "B-X"), "iob2", "iob2")
CONFIGS = [
    configs.TrainConfig(), configs.OptimizerConfig(), configs.DeviceConfig(), configs.ModelConfig(),
    configs.InstanceConfig(), configs.FineTuneConfig("out", DataOptions(), do_eval=True),
    configs.PretrainingConfig("a", "b", do_eval=True),
    configs.PretrainingDataConfig("a", "b"), configs.ExportConfig("out"), configs.ServingConfig(),
    BatchConfig(), FitConfig(),
    *(spec.config_class(TINY, **{"tags": TAGS} if spec.name == "token_classification" else {})
      for spec in TASKS.values()),
]  # fmt: skip
PLACES = [(config, x.name) for config in CONFIGS for x in dataclasses.fields(config)]


def test_options(holds):
    """Numbers out of bounds, infinities and NaN raise errors that name the option."""

    def check(place, value):
        config, name = place
        is_train = isinstance(config, configs.TrainConfig)
        is_number = type(value) in (int, float)
        changed = functools.partial(dataclasses.replace, config, **{name: value})
        if is_accepted(changed) and is_train and is_number:
            config = changed()
            is_accepted(config.num_train_steps, 100, "examples")

    holds(check, st.sampled_from(PLACES), NUMBERS)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: type(config).__name__)
def test_options_of_wrong_types(config):
    """Each field rejects values of other types with an error that names it."""
    values: dict = {bool: True, int: 3, float: 0.5, str: "x", dict: {"x": 1}, tuple: (object(),),
                    object: object()}  # fmt: skip
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        accepted = {typing.get_origin(x) or x for x in typing.get_args(hints[field.name])}
        accepted |= {typing.get_origin(hints[field.name]) or hints[field.name]}
        if any(hasattr(x, "_fields") for x in accepted):
            accepted.add(dict)  # as read from JSON
        if float in accepted:
            accepted.add(int)
        for kind, value in values.items():
            if kind in accepted and kind is not tuple:
                continue
            with pytest.raises(bert_tf.UserError, match=f"^`{field.name}="):
                dataclasses.replace(config, **{field.name: value})
        if field.default is dataclasses.MISSING:
            with pytest.raises(bert_tf.UserError, match=f"^`{field.name}=None`"):
                dataclasses.replace(config, **{field.name: None})


def joined(*strategies):
    return st.builds(lambda *x: b"".join(x), *strategies)


BINARY = st.binary(max_size=20)
HEADERS = [b"", b"text,label\n", b"text\tlabel\n", b'[{"text": "a", "label": ']
METADATA = {
    "architectures": ["BertModel"], "do_lower_case": True, "id2label": {"0": "a", "1": "b"},
    "labels": ["a", "b"], "names": ["c"], "scores": {"mean": 0.5, "deviation": 1},
}  # fmt: skip
# Names of files, their contents, and functions of folder and path that read them.
FILES = [
    (["bert_config.json"], changed(TINY.to_dict()) | JSON,
     [lambda _, path: bert_tf.BertConfig.from_json_file(path)]),
    (["side.json"],
     BINARY | st.sampled_from([b"[" * 10_000, b'{"a":' * 10_000, b"9" * 5000, b"\xef\xbb\xbf{}"]),
     [lambda folder, path: json_files.read(path)]),
    (["checkpoint"],
     joined(st.sampled_from([b"", b"model_checkpoint_path:", b'model_checkpoint_path: "']), BINARY),
     [lambda folder, _: checkpointing.latest(folder),
      lambda folder, _: bert_tf.checkpoints.find(folder)]),
    (["best/best.json"],
     changed({"metric": "accuracy", "value": 0.5, "step": 2, "since": [4]}) | JSON,
     [lambda folder, _: checkpointing.BestCheckpoint(folder, "accuracy")]),
    ([f"train.{ending}" for ending in ("csv", "tsv", "json", "jsonl", "txt")],
     joined(st.sampled_from(HEADERS), BINARY | TEXT.map(lambda x: x.encode("utf-8", "ignore")))
     | JSON,
     [lambda _, path: read_examples(custom_dataset(), None, "train", path)]),
    (["config.json", "tokenizer_config.json", "classifier.json"], changed(METADATA) | JSON,
     [lambda folder, _: bert_tf.checkpoints.read_metadata(folder),
      lambda folder, _: bert_tf.checkpoints.read_settings(folder),
      lambda folder, _: read_labels(folder, 2)]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "contents", "readers"), [(name, *row) for names, *row in FILES for name in names]
)
def test_files_with_any_contents(name, contents, readers, holds, tmp_path):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)

    def check(value):
        path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
        for reader in readers:
            is_accepted(reader, str(tmp_path), str(path))

    holds(check, contents)


def test_a_kill_at_any_write_leaves_a_readable_run(tmp_path, monkeypatch):
    """The kill may come before each file system operation."""
    variables = {"w": tf.Variable([0.0]), "global_step": tf.Variable(0)}
    allowed, num_kills = iter(()), 0

    def counted(operation):
        def run(*arguments, **options):
            if next(allowed, None) is None:
                raise KeyboardInterrupt
            return operation(*arguments, **options)

        return staticmethod(run)

    for name in ("rename", "remove", "GFile"):
        monkeypatch.setattr(files.Local, name, counted(getattr(files.Local, name)))
    for num_operations in range(13):
        folder = str(tmp_path / str(num_operations))
        allowed = itertools.count()
        variables["global_step"].assign(0)
        checkpointing.save(folder, variables)
        variables["global_step"].assign(2)
        allowed = iter(range(num_operations))
        try:
            checkpointing.save(folder, variables, keep=1)
        except KeyboardInterrupt:
            num_kills += 1
        allowed = itertools.count()
        assert checkpointing.restore_latest(folder, variables)
        processes.remove_temporary_files(folder)
        assert not list(pathlib.Path(folder).glob("*tmp*"))
    assert num_kills > 3

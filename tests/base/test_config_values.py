"""Every field of every configuration either accepts a value or raises a UserError.

The values depend on a seed that a failure prints. BERT_TF_TEST_SEED=7 repeats them.
"""

import dataclasses
import json
import math
import os
import random
import types
import typing

import numpy as np
import pytest

import bert_tf
from bert_tf import configs, tasks
from bert_tf.configs import Config
from bert_tf.configs.export import ExportConfig, ServingConfig
from bert_tf.configs.pretraining_data import InstanceConfig, PretrainingDataConfig
from bert_tf.configs.train import BatchConfig, FitConfig
from bert_tf.errors import UserError

SEED = int(os.environ.get("BERT_TF_TEST_SEED") or random.SystemRandom().randrange(2**32))

# One valid configuration of each class.
CONFIGS = [
    configs.ModelConfig(),
    configs.TrainConfig(best_metric="loss"),
    configs.OptimizerConfig(),
    configs.DeviceConfig(),
    configs.FineTuneConfig("out"),
    configs.PretrainingConfig("in", "out", dynamic_masking=True),
    InstanceConfig(),
    PretrainingDataConfig("out", "in", num_shards=2),
    ServingConfig(),
    ExportConfig("out"),
    BatchConfig(),
    FitConfig(),
    *(spec.config_class() for spec in tasks.TASKS.values() if spec.config_class),
]


class Unprintable:
    """An object on which most operations fail."""

    def __repr__(self):
        raise RuntimeError("no repr")

    def __bool__(self):
        raise RuntimeError("no truth")

    def __eq__(self, other):
        raise RuntimeError("not comparable")

    __hash__ = None


def _circular():
    values: list = []
    values.append(values)
    return values


SCALARS = [
    None, True, False, 0, 1, -1, 2, 8, 128, 384, 2**31, 2**63, -(2**70), 10**5000, 0.0, -0.0, 0.5,
    1.0, 1.5, -3.5, 1e308, 1e-320, math.nan, math.inf, -math.inf, 1 + 2j, "", "8", "true", "false",
    "no", "auto", "mirored", "bf16", "bio", "x" * 5000, "\ud800", "\0", "a\nb", "\u202e", b"", b"x",
    np.int64(3), np.int8(-1), np.uint64(2**63), np.float64(-1), np.float32("nan"), np.float16(0.5),
    np.bool_(True), np.str_("x"), np.bytes_(b"x"), np.datetime64("2020-01-01"), np.array(5),
    np.array([1, 2]), np.array([]), np.zeros((0, 3)), range(3), slice(1), ..., object(), object,
    int, len, Unprintable(), configs.TrainConfig(), configs.ModelConfig(), _circular(),
    types.SimpleNamespace(labels=1), bert_tf.BertConfig(vocab_size=9), bytearray(b"x"),
]  # fmt: skip


def any_value(rng, depth=0):
    """Return a scalar, a container of values, or a variant of a number or a string."""
    kind = rng.randrange(10)
    if kind < 4 or depth > 3:
        return rng.choice(SCALARS)
    if kind == 4:
        return rng.choice([1, -1]) * rng.getrandbits(rng.choice([2, 8, 32, 64, 200]))
    if kind == 5:
        return rng.uniform(-2, 2) * 10.0 ** rng.randrange(-300, 300, 20)
    if kind == 6:
        return "".join(chr(rng.randrange(rng.choice([128, 0x3000, 0x110000]))) for _ in range(5))
    values = [any_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 7:
        return rng.choice([list, tuple])(values)
    if kind == 8:
        keys = ["", "x", "model", 1, (1, 2), None, "\ud800"]
        return {rng.choice(keys): value for value in values}
    names = np.array([type(value).__name__ for value in values], object)
    return rng.choice([iter(values), set(map(id, values)), names])


def fits(value, hint):
    """Return whether a value matches a type annotation, independently of the library's check."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is typing.Any:
        return True
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, x) for x in arguments)
    if origin is typing.Annotated:
        return fits(value, arguments[0])
    if hint is type(None):
        return value is None
    if origin in (list, tuple):
        return isinstance(value, (list, tuple)) and all(fits(x, arguments[0]) for x in value)
    if hint is float:
        return type(value) in (int, float) and not math.isnan(value)
    if hint in (int, bool):
        return type(value) is hint
    return isinstance(value, origin or hint)


def changed(config, name, value):
    """Return a copy with another value, or None if it is rejected."""
    try:
        config = dataclasses.replace(config, **{name: value})
        return config.validate()
    except UserError as error:
        message = str(error)
        assert message and len(message.splitlines()) == 1 and len(message) < 700, message[:1000]
        return None


def check(config, name, values):
    """Check that accepted values match the type, choices and bounds; return how many there are."""
    field = type(config).__dataclass_fields__[name]
    hint = typing.get_type_hints(type(config), include_extras=True)[name]
    limits = {key: field.metadata.get(key) for key in ("choices", "minimum", "maximum")}
    accepted = 0
    for value in values:
        result = changed(config, name, value)
        if result is None:
            continue
        accepted += 1
        value = getattr(result, name)
        default = field.default
        is_default = type(value) is type(default) and value in (None, ())
        assert is_default or fits(value, hint), (name, value)
        if value is None or is_default:
            continue
        assert not limits["choices"] or value in limits["choices"], (name, value)
        assert limits["minimum"] is None or value >= limits["minimum"], (name, value)
        assert limits["maximum"] is None or value <= limits["maximum"], (name, value)
        if isinstance(value, str):
            value.encode("utf-8", "surrogateescape")  # paths may contain surrogates
    return accepted


FIELDS = [
    pytest.param(config, field.name, id=f"{type(config).__name__}.{field.name}")
    for config in CONFIGS
    for field in dataclasses.fields(config)
]


def generated(config, name, count):
    rng = random.Random(f"{SEED}/{type(config).__name__}/{name}")
    return [any_value(rng) for _ in range(count)]


def test_some_values_of_every_field():
    """Tries all scalars and a few generated values."""
    accepted = 0
    for param in FIELDS:
        config, name = param.values
        accepted += check(config, name, [*SCALARS, *generated(config, name, 5)])
    assert accepted > 3 * len(FIELDS)  # many of the values are valid


@pytest.mark.slow
@pytest.mark.parametrize(("config", "name"), FIELDS)
def test_1000_values_of_every_field(config, name):
    check(config, name, generated(config, name, 1000))


BERT_FIELDS = ["vocab_size", *bert_tf.BertConfig(vocab_size=9).to_dict()]


def check_bert_config(name, values):
    """Check that a `BertConfig` either rejects a value or survives a JSON round trip with it."""
    for value in values:
        try:
            config = bert_tf.BertConfig(**{"vocab_size": 9, name: value})
        except UserError as error:
            assert len(str(error).splitlines()) == 1
            continue
        again = bert_tf.BertConfig.from_dict(json.loads(config.to_json_string()))
        assert again == config, (name, value)
        assert type(value) is not bool or name == "has_segment_embeddings", (name, value)


@pytest.mark.parametrize(
    "count", [5, pytest.param(1000, marks=pytest.mark.slow)], ids=["some", "1000"]
)
def test_values_of_a_bert_config(count):
    for name in dict.fromkeys(BERT_FIELDS):
        rng = random.Random(f"{SEED}/{name}")
        check_bert_config(name, [*SCALARS, *(any_value(rng) for _ in range(count))])


def test_every_configuration_is_tested():
    def subclasses(cls):
        return {cls, *(x for child in cls.__subclasses__() for x in subclasses(child))}

    known = {type(config) for config in CONFIGS}
    tested = {base for cls in known for base in cls.__mro__ if issubclass(base, Config)}
    ours = {x for x in subclasses(Config) if x.__module__.startswith("bert_tf.")}
    assert not {x.__name__ for x in ours - tested}

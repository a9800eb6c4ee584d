"""Checks of tokenizer, model, training and export on the devices of a strategy, or of JAX."""

import contextlib
import json
import os
import pathlib
import platform
import tempfile
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

import bert_tf
from bert_tf import checkpoints
from bert_tf.configs.model import BertConfig
from bert_tf.configs.train import TrainConfig
from bert_tf.data import records, tfrecord
from bert_tf.data.input_pipeline import TrainingInput
from bert_tf.optimization import AdamWeightDecay, LinearWarmupDecay
from bert_tf.tasks.sentence_embedding.losses import Pooling, SentenceEmbeddingModel
from bert_tf.tasks.sentence_embedding.options import SentenceEmbeddingConfig
from bert_tf.training.engine import Engine
from bert_tf.training.loop import Loop
from bert_tf.training.pretraining import PretrainingObjective
from bert_tf.training.tensorflow_engine import LossScale, TensorFlowEngine, make_train_step

# Outputs of the release, see tests/golden/README.md.
RECORDED = pathlib.Path(__file__).parent / "recorded"

# Relative rounding error of the factors of a product.
ROUNDING = {"float16": 2.0**-11, "tf32": 2.0**-11, "bfloat16": 2.0**-8}

STEPS, _RATE = 3, 1e-3
_SIZES = {"S": 16, "P": 3}


class Check(NamedTuple):
    """The result of a check, passed if `value` is at most `bound`; `note` explains the value."""

    name: str
    value: float
    bound: float
    note: str = ""

    @property
    def passed(self):
        """False for NaN."""
        return bool(self.value <= self.bound)


def set_logical_devices(count):
    """Split the CPU into logical devices; must be called before TensorFlow uses it."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    devices = [tf.config.LogicalDeviceConfiguration()] * count
    tf.config.set_logical_device_configuration(cpu, devices)


def error_bound(dtype, kind, exact=2e-5, count=16):
    """Return the error bound for outputs in `dtype` on a kind of device, and the reason as text.

    In two layers of width 32, rounding errors add up to about eight (measured on a CPU).
    """
    uses_tf32 = tf.config.experimental.tensor_float_32_execution_enabled
    if dtype == "float32" and kind == "GPU" and uses_tf32():
        dtype = "tf32"
    if kind == "TPU":  # multiplies float32 with factors rounded to bfloat16
        dtype = "bfloat16"
    if dtype not in ROUNDING:
        return exact, ""
    return count * ROUNDING[dtype], f"{count} roundings of {dtype}"


def recorded_batch():
    """Return the configuration without dropout, the recorded batch, and its outputs."""
    config = json.loads((RECORDED / "bert_config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    recorded = dict(np.load(RECORDED / "io.npz"))
    batch = {name: x for name, x in recorded.items() if not name.startswith("out_")}
    outputs = {name.removeprefix("out_"): x for name, x in recorded.items() if name not in batch}
    return BertConfig.from_dict(config), batch, outputs


def compute_outputs(model, batch):
    """Return the layers and log probabilities of a `BertPretrainer` by their recorded names."""
    encoded, outputs = model.get_layer("bert")(batch), model(batch)
    log_probs = ops.log_softmax(outputs["masked_lm_logits"])
    return {
        **{f"layer_{i}": x for i, x in enumerate(encoded["all_encoder_layers"])},
        **{x: encoded[x] for x in ("embedding_output", "sequence_output", "pooled_output")},
        "masked_lm_log_probs": ops.reshape(log_probs, (-1, log_probs.shape[-1])),
        "next_sentence_log_probs": ops.log_softmax(outputs["next_sentence_logits"]),
    }


class Checks:
    """Checks on the devices of a strategy; each method yields `Check`s in `dtypes`."""

    def __init__(self, strategy, dtypes):
        self.strategy = strategy
        self.kind = tf.DeviceSpec.from_string(strategy.extended.worker_devices[0]).device_type
        self.dtypes = [x for x in dtypes if self.kind != "TPU" or x != "float16"]
        self._config, self._batch, self._recorded = recorded_batch()

    def describe(self):
        device = next(x for x in tf.config.list_physical_devices() if x.device_type == self.kind)
        details = tf.config.experimental.get_device_details(device)
        name = details.get("device_name") or platform.processor() or platform.machine()
        count = self.strategy.num_replicas_in_sync
        return f"{count} x {self.kind} ({name}), {type(self.strategy).__name__}"

    def all(self):
        yield from self.tokens()
        yield from self.outputs()
        yield from self.optimizer_steps()
        yield from self.training_steps()
        yield from self.resumed_run()
        yield self.exported_model()

    @staticmethod
    def tokens():
        """Compare the tokens of random strings in the graph and in Python."""
        rng = np.random.default_rng(0)
        vocab = vocabulary()
        letters = [x.removeprefix("##") for x in vocab[5:]]
        letters += [" ", " ", "\u0301", "\u3000"]
        texts = ["".join(row) for row in rng.choice(letters, (400, 40))]
        texts += ["".join(map(chr, row)) for row in rng.integers(1, 0x3000, (400, 12))]
        table = {token: i for i, token in enumerate(vocab)}
        for cased in (False, True):
            expected = bert_tf.FullTokenizer(table, not cased).encode_batch(texts)
            tokenizer = bert_tf.GraphTokenizer(table, not cased)
            actual = tf.function(tokenizer.tokenize)(tf.constant(texts)).to_list()
            count = sum(a != b for a, b in zip(expected, actual, strict=True))
            name = "tokens in the graph, " + ("cased" if cased else "uncased")
            yield Check(name, count, 0, f"strings that differ, of {len(texts)}")

    def outputs(self):
        """Compare layers, heads and losses with the outputs of the release."""
        for dtype in self.dtypes:
            objective = self._make_objective(dtype)

            def compute(batch, objective=objective):
                denominators = objective.denominators(batch)
                losses = objective.losses(objective.model(batch), batch, denominators)
                return {**compute_outputs(objective.model, batch), **losses}

            outputs = self._compile(compute)(self._batch)
            recorded = self._recorded
            errors = {x: float(np.abs(np.float32(outputs[x]) - recorded[x]).max()) for x in outputs}
            worst = max(errors, key=errors.__getitem__)
            bound, reason = error_bound(dtype, self.kind)
            note = f"largest of {len(outputs)}: {worst}" + (f"; {reason}" if reason else "")
            yield Check(f"outputs of the release, {dtype}", errors[worst], bound, note)

    def optimizer_steps(self):
        """Repeat the steps of the release's optimizer, with and without warm-up."""
        worst, num_steps = 0.0, 0
        for case in ("adam_warmup", "adam_no_warmup"):
            recorded = np.load(RECORDED / f"{case}.npz")
            rate, total, warmup, count = recorded["hyper"]
            names = [key.removeprefix("init|") for key in recorded.files if key.startswith("init|")]
            with self.strategy.scope():
                variables = {name: tf.Variable(recorded[f"init|{name}"]) for name in names}
                optimizer = AdamWeightDecay(LinearWarmupDecay(float(rate), int(total), int(warmup)))
                optimizer.build(variables)
            step = self._compile(lambda x, optimizer=optimizer: {"": optimizer.apply_reduced(x)})
            for i in range(int(count)):
                step({name: recorded[f"grad{i}|{name}"] for name in names})
            num_steps += int(count)
            for name, variable in variables.items():
                expected = recorded[f"weight{int(count) - 1}|{name}"]
                worst = max(worst, float(np.abs(variable.numpy() - expected).max()))
        yield Check(f"optimizer, {num_steps} steps of the release", worst, 1e-6, "weights")

    def training_steps(self):
        """Compare weights or losses after a few steps with one device in float32."""
        with tf.device("CPU:0"):
            one = Checks(tf.distribute.OneDeviceStrategy("CPU:0"), self.dtypes)
            expected = one._train("float32")
        cases = {"": {}, ", accumulated": {"gradient_accumulation_steps": 2}}
        if self.kind != "TPU":  # always uses XLA
            cases[", XLA"] = {"xla": True}
        for dtype in self.dtypes:
            for name, options in cases.items():
                yield self.compare_steps(name, self._train(dtype, **options), expected, dtype)

    def compare_steps(self, name, trained, expected, dtype):
        """Compare (weights, losses) after a few steps with the results of one device in float32."""
        bound, reason = error_bound(dtype, self.kind, count=2)  # losses are means
        # With rounding, Adam turns small gradient differences into large weight differences.
        index, note = (1, f"losses; {reason}") if reason else (0, "weights")
        pairs = zip(trained[index], expected[index], strict=True)
        difference = np.max([np.abs(x - y).max() for x, y in pairs])
        return Check(f"{STEPS} steps{name}, {dtype}", float(difference), bound, note)

    def resumed_run(self):
        """Compare the weights of a run that was stopped and resumed with an uninterrupted run."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "records")
            batch_size = 4 * self.strategy.num_replicas_in_sync
            rows = [{name: x[i % 4] for name, x in self._batch.items()} for i in range(batch_size)]
            with tfrecord.writing([path]) as write:
                write(records.serialize(records.PRETRAINING, rows))
            engine = TensorFlowEngine(self.strategy)
            weights = {}
            for name, last in (("whole", 4), ("parts", 2), ("parts", 4)):
                keras.utils.set_random_seed(0)
                output_dir = os.path.join(folder, name)
                loop = Loop(lambda: PretrainingObjective(self._config), engine, output_dir)
                data = TrainingInput([path], records.PRETRAINING, _SIZES, batch_size, 0)
                with self.strategy.scope():
                    optimizer = _optimizer(4)
                loop.train(data, optimizer, last)
                weights[name] = loop.model.get_weights()
        worst = max(np.abs(x - y).max() for x, y in zip(*weights.values(), strict=True))
        # A GPU adds in any order.
        bound = 1e-5 if self.kind == "GPU" else 0.0
        yield Check("stopped and resumed", float(worst), bound, "weights")

    def exported_model(self):
        """Export the encoder, and compare the outputs of the loaded model."""
        model = self._make_objective("float32").model.get_layer("bert")
        with tempfile.TemporaryDirectory() as folder:
            vocab = os.path.join(folder, "vocab.txt")
            pathlib.Path(vocab).write_text("\n".join(vocabulary()) + "\n", "utf-8")
            options = {"max_seq_length": 16, "pooling": "mean", "normalize": False}
            config = SentenceEmbeddingConfig(model.config, vocab, **options)
            column_model = SentenceEmbeddingModel(model, Pooling("mean", -1, False))
            encoder = bert_tf.SentenceEncoder(column_model, config)
            texts = ["ab cd", "e", "12 ab c d e f"]
            expected = encoder.encode(texts)
            encoder.export(os.path.join(folder, "export"), warm_up=False)
            path = os.path.join(folder, "export", "1")
            serve = tf.saved_model.load(path).signatures["serving_default"]
            vectors = serve(text=tf.constant(texts))["vectors"].numpy()
        bound, reason = error_bound("float32", self.kind, 1e-5)
        return Check("exported model", float(np.abs(vectors - expected).max()), bound, reason)

    def _make_objective(self, dtype):
        with self.strategy.scope() if self.strategy else contextlib.nullcontext():
            objective = PretrainingObjective(self._config, TrainConfig(dtype=dtype).dtype_policy)
            checkpoints.warm_start(objective.model, str(RECORDED / "bert_model.ckpt"))
        return objective

    def _compile(self, function):
        """Return `function` for a batch that is the same on each replica, with NumPy results."""
        compiled = tf.function(lambda batch: self.strategy.run(function, (batch,)), autograph=False)

        def run(batch):
            results = compiled({name: tf.constant(x) for name, x in batch.items()})
            first = {x: self.strategy.experimental_local_results(y)[0] for x, y in results.items()}
            return {name: x.numpy() for name, x in first.items()}

        return run

    def _train(self, dtype, **options):
        objective = self._make_objective(dtype)
        variables = checkpoints.weights(objective.model)
        with self.strategy.scope():
            optimizer = _optimizer(STEPS)
            optimizer.build(variables)
            loss_scale = LossScale.of(objective.model)
            step = make_train_step(objective, optimizer, TrainConfig(**options), loss_scale)
        run = self._compile(step)
        # Twice the rows, for accumulation.
        batch = {name: np.concatenate([x, x]) for name, x in self._batch.items()}
        losses = [float(run(batch)["loss"]) for _ in range(STEPS)]
        return [x.numpy() for x in variables.values()], losses


class JaxChecks(Checks):
    """Checks on all devices of JAX; each method yields `Check`s in `dtypes`."""

    strategy = None

    def __init__(self, dtypes):
        import jax  # optional dependency

        self._devices = jax.devices()
        kind = self._devices[0].platform.upper()
        self.kind = "GPU" if kind in ("CUDA", "ROCM") else kind
        self.dtypes = dtypes
        self._config, self._batch, self._recorded = recorded_batch()

    def describe(self):
        return f"{len(self._devices)} x {self.kind} ({self._devices[0].device_kind}), JAX"

    def all(self):
        yield from self.tokens()
        yield from self.training_steps()  # first, because it starts with one device
        yield from self.outputs()
        yield self.exported_model()

    def training_steps(self):
        """Compare weights or losses after a few steps with one device in float32."""
        expected = self._train("float32")
        Engine.default()  # uses all devices from now on
        for dtype in self.dtypes:
            yield self.compare_steps("", self._train(dtype), expected, dtype)

    def _compile(self, function):
        return lambda batch: {x: ops.convert_to_numpy(y) for x, y in function(batch).items()}

    def _train(self, dtype):
        objective = self._make_objective(dtype)
        model = objective.model
        model.objective = objective
        model.compile(AdamWeightDecay(_RATE))
        # One device and all devices use the same batch, so it is divisible by their number.
        count = 2 * len(self._devices)
        batch = {name: np.concatenate([x] * count) for name, x in self._batch.items()}
        steps = [model.train_on_batch(batch, return_dict=True) for _ in range(STEPS)]
        return model.get_weights(), [float(step["loss"]) for step in steps]


def _optimizer(num_steps):
    return AdamWeightDecay(LinearWarmupDecay(_RATE, num_steps, 0))


def vocabulary():
    letters = [chr(i) for i in range(ord("a"), ord("z") + 1)]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    others = [*".,!?;:'\"()-", *"äöüßéαβγδε中文日本яжфю€"]
    return [*special, *letters, *(f"##{x}" for x in letters), *"0123456789", *others]

"""Checks of the model, its training and its export on the devices of Keras' JAX backend."""

import keras
import numpy as np

from bert_tf import checkpoints
from bert_tf.device_check import checks
from bert_tf.modeling import BertPretrainer
from bert_tf.optimization import AdamWeightDecay
from bert_tf.training.jax_devices import use_all_devices


class JaxChecks:
    """Checks on all devices of JAX; each method yields `Check`s in `dtypes`."""

    def __init__(self, dtypes):
        import jax  # optional dependency

        self._devices = jax.devices()
        kind = self._devices[0].platform.upper()
        self.kind = "GPU" if kind in ("CUDA", "ROCM") else kind
        self.dtypes = dtypes
        self._config, self._batch, self._recorded = checks.recorded_batch()

    def describe(self):
        return f"{len(self._devices)} x {self.kind} ({self._devices[0].device_kind}), JAX"

    def all(self):
        yield from checks.Checks.tokens()
        yield from self.training_steps()  # first, because it starts with one device
        yield from self.outputs()
        model = self._make_model("float32").get_layer("bert")
        yield checks.check_export(model, self.kind, "CPU")

    def outputs(self):
        """Compare layers and heads with the outputs of the release."""
        for dtype in self.dtypes:
            outputs = checks.compute_outputs(self._make_model(dtype), self._batch)
            outputs = {name: keras.ops.convert_to_numpy(x) for name, x in outputs.items()}
            yield checks.check_outputs(outputs, self._recorded, dtype, self.kind)

    def training_steps(self):
        """Compare weights or losses after a few steps with one device in float32."""
        expected = self._train("float32")
        use_all_devices()
        for dtype in self.dtypes:
            yield checks.check_steps("", self._train(dtype), expected, dtype, self.kind)

    def _make_model(self, dtype):
        policy = dtype if dtype == "float32" else f"mixed_{dtype}"
        model = BertPretrainer(self._config, dtype=policy)
        checkpoints.warm_start(model, str(checks.RECORDED / "bert_model.ckpt"))
        return model

    def _train(self, dtype):
        model = self._make_model(dtype)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        names = ("masked_lm_logits", "next_sentence_logits")
        model.compile(AdamWeightDecay(1e-3), dict.fromkeys(names, loss))
        # One device and all devices use the same batch, so it is divisible by their number.
        count = 2 * len(self._devices)
        batch = {name: np.concatenate([x] * count) for name, x in self._batch.items()}
        labels = dict(
            zip(names, (batch["masked_lm_ids"], batch["next_sentence_labels"]), strict=True)
        )
        inputs = {x.name: batch[x.name] for x in model.inputs}
        losses = []
        for _ in range(checks.STEPS):
            losses.append(float(model.train_on_batch(inputs, labels, return_dict=True)["loss"]))
        return model.get_weights(), losses

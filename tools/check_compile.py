r"""Compile the training step of a run for a TPU or a GPU that this machine does not have.

The real compiler of the device shows whether it accepts the step, how much memory the step takes,
and which batch fits. A compilation takes minutes. tools/check_compile.md describes the results.

    python -m tools.check_compile --device=v5e:2x2 --model=uncased_L-12_H-768_A-12 \
      --task=classification --train_batch_size=128 --dtype=bfloat16

With KERAS_BACKEND=jax, it is the step of the scripts on JAX:

    KERAS_BACKEND=jax python -m tools.check_compile --device=H100 --task=pretraining \
      --bert_config_file=bert_config.json --max_seq_length=512
"""

import os

from absl import flags

import bert_tf
from bert_tf import console
from bert_tf.cli.flags import FLAGS, define_options, from_flags, run
from bert_tf.configs.model import ModelConfig
from bert_tf.configs.pretraining import RecordConfig
from bert_tf.configs.train import DeviceConfig, OptimizerConfig, TrainConfig
from bert_tf.console import write
from tools.compilers import ENVIRONMENT, Compiler

flags.DEFINE_string(
    "device", None, "TPU topology, such as v5e:2x2, or GPUs, such as H100 or H100:8.", required=True
)
flags.DEFINE_string("task", "classification", "Name of the task, such as pretraining.")
flags.DEFINE_bool("largest_batch", True, "Whether to search for the largest batch that fits.")
flags.DEFINE_string("output_file", None, "JSON file to write the results to.")
define_options(RecordConfig)
define_options(ModelConfig, only=("model", "bert_config_file"))
define_options(
    TrainConfig, only=("train_batch_size", "dtype", "gradient_accumulation_steps", "recompute")
)
define_options(OptimizerConfig, only=("optimizer", "layer_decay"))

BACKENDS = ("tensorflow", "jax")

os.environ.update({name: os.environ.get(name, value) for name, value in ENVIRONMENT.items()})


def main():
    if FLAGS.output_file:
        bert_tf.io.files.check_writable(FLAGS.output_file, "output_file")
    train, lengths, optimizer = map(from_flags, (TrainConfig, RecordConfig, OptimizerConfig))
    backend, size = os.environ["KERAS_BACKEND"], train.train_batch_size
    compiler = Compiler(FLAGS.device, backend)
    DeviceConfig(use_tpu=not compiler.is_gpu).check_dtype(train.dtype)
    model = bert_tf.checkpoints.resolve(from_flags(ModelConfig), needs=["bert_config_file"])
    from tools.compilation import Step, largest_batch

    with console.at_level("ERROR", "bert_tf", "absl", "tensorflow"):
        step = Step(FLAGS.task, model.bert_config, lengths, train, optimizer, compiler)
    versions = {"bert_tf": bert_tf.__version__, **compiler.versions}
    program = f"the scripts on {'JAX' if backend == 'jax' else 'TensorFlow'}"
    report = {
        "versions": ", ".join(f"{name} {x}" for name, x in versions.items()),
        "devices": f"{compiler.count} x {compiler.kind}, {_size(compiler.memory)} for {backend}",
        "step": f"{FLAGS.task} with {program}, {train.dtype}, {lengths.max_seq_length} tokens",
    }
    _show(report)
    console.info("compiling takes minutes, for BERT-Base on two cores 2 for a GPU, 10 for a TPU")
    plan = step.compile(size)
    _show({"batch": f"{size}, {size // compiler.count} a device", **_describe(plan, compiler)})
    report |= {"train_batch_size": size, "plan": plan}
    if FLAGS.largest_batch:
        unit = compiler.count * train.gradient_accumulation_steps
        best, plan = largest_batch(step.compile, size, plan, compiler.memory, unit)
        _show({"largest batch": f"{best}, {_size(plan['memory'])} a device" if best else "none"})
        report |= {"largest_batch": best, "largest_plan": plan}
    if FLAGS.output_file:
        bert_tf.io.json_files.write(FLAGS.output_file, report)


def _describe(plan, compiler):
    if plan is None:
        return {"compiled": "no, the memory of the device is not enough"}
    collectives, host = (
        ", ".join(f"{n} {name}" for name, n in plan[x].items()) or "none"
        for x in ("collectives", "host")
    )
    return {
        "compiled": f"in {console.duration(plan['seconds'])}",
        "memory": f"{_size(plan['memory'])} a device, {plan['memory'] / compiler.memory:.0%}",
        "  weights": f"{_size(plan['arguments'])}, with the optimizer and the batch",
        "  activations": _size(plan["temporaries"]),
        "  copies": f"{_size(plan['copies'])}, results that do not replace weights",
        "  program": _size(plan["program"]),
        "collectives": collectives,
        "host": host,
        "products": f"{plan['dots']}, of which {plan['float32_dots']} in float32",
    }


def _size(count):
    return f"{count / 2**30:.2f} GiB"


def _show(values):
    write("".join(f"{name:<17}{value}\n" for name, value in values.items()))


if __name__ == "__main__":
    run(main, backends=BACKENDS)

#!/usr/bin/env python3
r"""Export a fine-tuned or pre-trained model for TF Serving or ONNX Runtime.

A model trained by one of the scripts, with its task, labels and vocabulary:

    python export_model.py --model_dir=/tmp/mrpc --export_dir=/models/mrpc

A pre-trained model with 8-bit weights:

    python export_model.py --task=sentence_embedding \
      --model=uncased_L-12_H-768_A-12 --weights=int8 \
      --export_dir=/models/embeddings
"""

import os

from absl import flags

import bert_tf
from bert_tf.cli import pretrained
from bert_tf.cli.flags import FLAGS, define_options, from_flags, run
from bert_tf.configs.base import hints_of
from bert_tf.configs.export import ExportConfig
from bert_tf.configs.model import ModelConfig
from bert_tf.configs.task_names import TASK_CONFIG_FILES

define_options(ExportConfig)
flags.mark_flag_as_required("export_dir")

# Attributes of `ExportConfig` that are arguments of `from_preset`.
_OPTIONS = ("labels", "max_seq_length", "num_texts", "num_best", "version_2_with_negative")
# Flags whose values are stored in --model_dir.
_WITHOUT_FOLDER = ("task", *_OPTIONS, *hints_of(ModelConfig))


def main():
    from bert_tf.tasks import registry  # imports TensorFlow

    if not (FLAGS.model_dir or FLAGS.model or FLAGS.init_checkpoint):
        raise bert_tf.UserError(
            "--model_dir (a fine-tuned model), --model or --init_checkpoint is required"
        )
    for name in _WITHOUT_FOLDER if FLAGS.model_dir else ():
        if FLAGS[name].present:
            raise bert_tf.UserError(
                f"--{name} cannot be combined with --model_dir; to override what the run saved, "
                f"use --init_checkpoint={FLAGS.model_dir} --task=... instead"
            )
    config = from_flags(ExportConfig)
    bert_tf.serving.choose_version(config.export_dir, config.version)
    model_files = run_files(config) if config.model_dir else pretrained.model_files()
    options = {name: getattr(config, name) for name in _OPTIONS if config.is_given(name)}
    task = registry.load(model_files, config.task, **options)
    servable = task.make_servable(task.model, task.config, config.serving)
    bert_tf.serving.export(servable, config.export_dir, config.version, config.model_dir)


def run_files(config):
    """Return the `PretrainedFiles` of --model_dir, with the weights of --checkpoint."""
    folder, checkpoint = config.model_dir, None
    names = TASK_CONFIG_FILES
    if any(bert_tf.io.files.exists(os.path.join(folder, name)) for name in names):
        if not config.checkpoint:
            bert_tf.training.checkpointing.log_best_checkpoint(folder, "checkpoint")
        argument = "checkpoint" if config.checkpoint else "model_dir"
        checkpoint = bert_tf.checkpoints.find(config.checkpoint or folder, argument)
    elif not bert_tf.io.files.is_folder(folder):
        raise bert_tf.UserError(f"--model_dir: there is no folder {folder}")
    elif not bert_tf.checkpoints.hugging_face.is_folder(folder):
        raise bert_tf.UserError(
            f"--model_dir: found none of {', '.join(names)} in {folder}, expected a Hugging Face "
            f"folder or the output_dir of a training run ({', '.join(names.values())}); for a "
            "checkpoint of the release, use --task, --labels and --init_checkpoint"
        )
    elif config.checkpoint:
        raise bert_tf.UserError(f"--checkpoint: {folder}, a Hugging Face folder, has only one")
    return bert_tf.checkpoints.resolve(ModelConfig(folder, init_checkpoint=checkpoint))


if __name__ == "__main__":
    run(main)

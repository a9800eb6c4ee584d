#!/usr/bin/env python3
r"""Export a fine-tuned or pre-trained model as a SavedModel, for TF Serving.

A model trained by one of the scripts, with its task, labels and vocabulary:

    python export_model.py --model_dir=/tmp/mrpc --export_dir=/models/mrpc

A pre-trained model with 8-bit weights:

    python export_model.py --task=sentence_embedding \
      --model=uncased_L-12_H-768_A-12 --weights=int8 \
      --export_dir=/models/embeddings
"""

from absl import flags

import bert_tf
from bert_tf.cli import pipelines
from bert_tf.cli.flags import FLAGS, define_options, from_flags, run
from bert_tf.configs.base import hints_of
from bert_tf.configs.export import ExportConfig
from bert_tf.configs.model import ModelConfig

define_options(ExportConfig)
flags.mark_flag_as_required("export_dir")

# Flags whose values are stored in --model_dir.
_WITHOUT_FOLDER = ("task", "labels", "max_seq_length", "num_texts", "num_best",
                   "version_2_with_negative", *hints_of(ModelConfig))  # fmt: skip


def main():
    if not (FLAGS.model_dir or FLAGS.model or FLAGS.init_checkpoint):
        raise bert_tf.UserError(
            "--model_dir (a fine-tuned model), --model or --init_checkpoint is required"
        )
    for name in _WITHOUT_FOLDER if FLAGS.model_dir else ():
        if FLAGS[name].present:
            raise bert_tf.UserError(f"--{name} cannot be combined with --model_dir")
    config = from_flags(ExportConfig)
    servable = from_run(config) if config.model_dir else from_pretrained(config)
    bert_tf.serving.export(servable, config.export_dir, config.version, config.model_dir)


def from_run(export_config):
    from bert_tf.tasks import registry  # imports TensorFlow

    folder, serving_config = export_config.model_dir, export_config.serving
    spec, config = registry.load_config(folder)
    if spec is None and bert_tf.checkpoints.hugging_face.is_folder(folder):
        return registry.load_servable(bert_tf.checkpoints.resolve(folder), serving_config)
    if spec is None:
        names = bert_tf.io.files.TASK_CONFIG_FILES
        raise bert_tf.UserError(
            f"--model_dir: found none of {', '.join(names)} in {folder}, expected a Hugging Face "
            f"folder or the output_dir of a training run ({', '.join(names.values())}); for a "
            "checkpoint of the release, use --task, --labels and --init_checkpoint"
        )
    if export_config.checkpoint:
        checkpoint = bert_tf.checkpoints.find(export_config.checkpoint, "checkpoint")
    else:
        bert_tf.training.checkpointing.log_best_checkpoint(folder, "checkpoint")
        checkpoint = bert_tf.checkpoints.find(folder, "model_dir")
    return registry.make_servable(spec, config, checkpoint, serving_config)


def from_pretrained(export_config):
    """Return the `Servable` of --init_checkpoint or --model; by default, its head sets the task."""
    from bert_tf.tasks import registry

    preset, serving = pipelines.model_files(), export_config.serving
    if export_config.task is None:
        return registry.load_servable(preset, serving)
    spec, served = registry.served_tasks()[export_config.task]
    options = {name: getattr(export_config, name) for name in served.options}
    options["max_seq_length"] = export_config.max_seq_length
    # Checkpoints for these tasks may lack weights that are not used, such as the pooler.
    lenient = {"sentence_embedding": bert_tf.SentenceEncoder, "fill_mask": bert_tf.FillMask}
    if pipeline := lenient.get(export_config.task):
        loaded = pipeline.from_preset(preset, **options)
        return loaded.spec.make_servable(loaded.model, loaded.config, serving)
    metadata = bert_tf.checkpoints.read_metadata(preset.checkpoint)
    config = spec.config_class.from_pretrained(
        preset.bert_config,
        preset.vocab_file,
        **preset.tokenizer.settings,
        **served.config,
        **{**options, "labels": export_config.labels or metadata.get("labels", ())},
    )
    return registry.make_servable(spec, config, preset.checkpoint, serving)


if __name__ == "__main__":
    run(main)

#!/usr/bin/env python3
r"""Export a fine-tuned or pre-trained model as a SavedModel, for TF Serving.

A model trained by one of the scripts, with its task, labels and vocabulary:

    python export_model.py --model_dir=/tmp/mrpc --export_dir=/models/mrpc

A pre-trained model with 8-bit weights:

    python export_model.py --task=sentence_embedding \
      --model=uncased_L-12_H-768_A-12 --weights=int8 \
      --export_dir=/models/embeddings
"""

import itertools

from absl import flags

import bert_tf
from bert_tf.cli import pipelines, usage
from bert_tf.cli.flags import FLAGS, define_options, from_flags, run
from bert_tf.configs.export import ExportConfig, ServingConfig

flags.DEFINE_enum(
    "task",
    None,
    ["encoder", "sentence_embedding", "fill_mask", "classification", "multi_label", "regression",
     "question_answering", "token_classification", "multiple_choice"],
    "Without model_dir: task of the pre-trained model. Default: determined by its head.",
)  # fmt: skip
usage.group("Task", "task")
define_options(ExportConfig())
flags.mark_flag_as_required("export_dir")

# Flags whose values are stored in --model_dir.
_WITHOUT_FOLDER = ("task", "labels", "max_seq_length", "num_texts", "num_best", "model",
                   "version_2_with_negative", "init_checkpoint", "bert_config_file", "vocab_file",
                   "do_lower_case", "strip_accents", "tokenize_chinese_chars")  # fmt: skip


def main():
    check_flags(FLAGS.task)
    servable = from_run() if FLAGS.model_dir else from_pretrained(FLAGS.task)
    bert_tf.serving.export(servable, FLAGS.export_dir, FLAGS.version, FLAGS.model_dir)


def check_flags(task):
    from bert_tf.tasks import registry  # imports TensorFlow

    names = ("model_dir", "model", "init_checkpoint")
    if not any(FLAGS[name].value for name in names):
        raise bert_tf.UserError(
            "--model_dir (a fine-tuned model), --model or --init_checkpoint is required"
        )
    for name in _WITHOUT_FOLDER if FLAGS.model_dir else ():
        if FLAGS[name].present:
            raise bert_tf.UserError(f"--{name} cannot be combined with --model_dir")
    pipelines.check_requires("checkpoint", ["model_dir"])
    pipelines.check_requires("max_seq_length", ["task"])
    kinds = {name: served.options for name, (_, served) in registry.served_tasks().items()}
    for name in dict.fromkeys(itertools.chain(*kinds.values())):
        names = [kind for kind, options in kinds.items() if name in options]
        if FLAGS[name].present and task not in names:
            raise bert_tf.UserError(f"--{name} requires --task={' or '.join(names)}")
    if FLAGS.sequence_buckets and FLAGS.inputs == "ids":
        raise bert_tf.UserError(
            "--sequence_buckets cannot be combined with --inputs=ids, which are not padded"
        )


def from_run():
    from bert_tf.tasks import registry

    folder = FLAGS.model_dir
    serving_config = from_flags(ServingConfig())
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
    if not FLAGS.checkpoint:
        bert_tf.training.checkpointing.log_best_checkpoint(folder, "checkpoint")
    checkpoint = bert_tf.checkpoints.find(
        FLAGS.checkpoint or folder, "checkpoint" if FLAGS.checkpoint else "model_dir"
    )
    return registry.make_servable(spec, config, checkpoint, serving_config)


def from_pretrained(task):
    """Return the `Servable` of --init_checkpoint or --model; by default, its head sets the task."""
    from bert_tf.tasks import registry

    preset, serving = pipelines.model_files(), from_flags(ServingConfig())
    if task is None:
        return registry.load_servable(preset, serving)
    spec, served = registry.served_tasks()[task]
    options = {name: FLAGS[name].value for name in served.options}
    if spec.pretrained_servable:
        return spec.pretrained_servable(preset, serving, FLAGS.max_seq_length, **options)
    options.pop("labels", None)
    metadata = bert_tf.checkpoints.read_metadata(preset.checkpoint)
    config = spec.config_class.from_pretrained(
        preset.bert_config,
        preset.vocab_file,
        labels=FLAGS.labels or metadata.get("labels", ()),
        max_seq_length=FLAGS.max_seq_length,
        **preset.tokenizer.settings,
        **served.config,
        **options,
    )
    return registry.make_servable(spec, config, preset.checkpoint, serving)


if __name__ == "__main__":
    run(main)

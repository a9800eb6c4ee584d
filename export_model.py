#!/usr/bin/env python3
"""Writes a SavedModel for TF Serving: of what a script trained, or of a model as it is."""

import dataclasses

from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS

bert_tf.cli.flags.define_model_flags()
bert_tf.cli.flags.define_tokenizer_flags()
flags.DEFINE_string("model_dir", None, "The output_dir of the script that trained it.")
flags.DEFINE_string(
    "checkpoint", None, "A checkpoint of that run, the newest in model_dir if not given."
)
flags.DEFINE_enum(
    "task",
    None,
    ["encoder", "sentence_embedding", "fill_mask", "classification", "multi_label", "regression",
     "question_answering", "token_classification", "multiple_choice"],
    "Without model_dir: what the model of init_checkpoint (of the release, or a Hugging Face "
    "folder) is to do.",
)  # fmt: skip
flags.DEFINE_list("labels", None, "Without model_dir: the labels, if nothing beside it says them.")
flags.DEFINE_integer(
    "max_seq_length",
    None,
    "Without model_dir: the longest sequence in tokens; 128, or 384 of answers, if not given.",
    lower_bound=1,
)
flags.DEFINE_integer("num_texts", 1, "For --task=classification and its like: 2 for pairs.", 1, 2)
flags.DEFINE_bool(
    "version_2_with_negative",
    False,
    "For --task=question_answering: whether there may be no answer.",
)
flags.DEFINE_integer("num_best", 5, "For --task=fill_mask: words for each mask.", 1)
flags.DEFINE_string(
    "export_dir", None, "Folder of the model's versions; a numbered folder is made in it."
)
flags.DEFINE_integer(
    "version", None, "Number of the version, the next free one if not given.", lower_bound=0
)
flags.DEFINE_enum(
    "inputs",
    "text",
    ["text", "ids"],
    "text takes strings, and ids by a second signature, and needs tensorflow-text; ids takes ids "
    "and needs TensorFlow alone.",
)
flags.DEFINE_list(
    "sequence_buckets",
    [],
    "Lengths to pad the sequences of texts to, as 32,64,128; to the longest of a batch if not "
    "given.",
)
flags.DEFINE_enum(
    "weights",
    "float32",
    ["float32", "bfloat16", "int8"],
    "What to keep the weights in; bfloat16 and int8 make the files a half and a quarter as large.",
)
flags.DEFINE_bool("warm_up", True, "Whether to leave requests for TF Serving to warm up with.")
flags.mark_flag_as_required("export_dir")

# Flags that say what a folder of ours says by itself.
_WITHOUT_FOLDER = ("task", "labels", "max_seq_length", "num_texts", "num_best", "model",
                   "version_2_with_negative", "init_checkpoint", "bert_config_file", "vocab_file",
                   "do_lower_case")  # fmt: skip

# What some flags are for.
_CLASSES = ("classification", "multi_label", "regression")
_TASKS_OF = {
    "labels": ("classification", "multi_label", "token_classification"),
    "num_texts": _CLASSES,
    "num_best": ("fill_mask",),
    "version_2_with_negative": ("question_answering",),
}


def main():
    if bool(FLAGS.model_dir) == bool(FLAGS.task):
        raise bert_tf.UserError(
            "--model_dir must be given, for a model that was trained here; or --task, and "
            "--init_checkpoint or --model, for any other"
        )
    for name in _WITHOUT_FOLDER if FLAGS.model_dir else ("checkpoint",):
        if FLAGS[name].present:
            other = "model_dir, which says it itself" if FLAGS.model_dir else "task"
            raise bert_tf.UserError(f"--{name} does not go with --{other}")
    for name, tasks in _TASKS_OF.items():
        if FLAGS[name].present and FLAGS.task not in tasks:
            raise bert_tf.UserError(f"--{name} is for --task={' and '.join(tasks)}")
    if FLAGS.sequence_buckets and FLAGS.inputs == "ids":
        raise bert_tf.UserError("--sequence_buckets are for texts; ids come in their length")
    servable = trained() if FLAGS.model_dir else as_it_is()
    bert_tf.serving.export(servable, FLAGS.export_dir, FLAGS.version)


def options():
    try:
        buckets = tuple(map(int, FLAGS.sequence_buckets))
    except ValueError:
        raise bert_tf.UserError("--sequence_buckets: whole numbers were expected") from None
    return bert_tf.serving.Options(FLAGS.inputs, buckets, FLAGS.weights, FLAGS.warm_up)


def trained():
    """The model of --model_dir as a `Servable`."""
    tasks, folder = bert_tf.tasks, FLAGS.model_dir
    loaders = (tasks.question_answering.load_spans, tasks.choice.load_choice,
               tasks.token_classification.load_tags,
               tasks.load_settings)  # fmt: skip
    settings = next(filter(None, (load(folder) for load in loaders)), None)
    if settings is None:
        scripts = bert_tf.files.SETTINGS
        raise bert_tf.UserError(
            f"--model_dir: {folder} is not the output_dir of a run of "
            f"{', '.join(scripts.values())} that has trained: it has none of {', '.join(scripts)}"
        )
    if not FLAGS.checkpoint:
        bert_tf.training.log_best_checkpoint(folder, "checkpoint")
    checkpoint = bert_tf.checkpoints.find(
        FLAGS.checkpoint or folder, "checkpoint" if FLAGS.checkpoint else "model_dir"
    )
    return served(settings, checkpoint)


def served(settings, checkpoint):
    """The model of a task with its weights, as a `Servable`."""
    tasks, serving, labels = bert_tf.tasks, bert_tf.serving, None
    if isinstance(settings, tasks.question_answering.SpanSettings):
        model, make = bert_tf.BertSpanLabeler(settings.config), serving.question_answering_servable
    elif isinstance(settings, tasks.choice.ChoiceSettings):
        model, make = bert_tf.BertMultipleChoice(settings.config), serving.multiple_choice_servable
    elif isinstance(settings, tasks.token_classification.TagSettings):
        labels, on_features = settings.tag_names, settings.on_features
        model = tasks.token_classification.make_model(
            settings.config, len(labels), on_features=on_features
        )
        make = serving.token_classification_servable
    else:
        model = bert_tf.BertClassifier(
            settings.config, settings.num_outputs, num_numbers=len(settings.vector)
        )
        make, labels = serving.classification_servable, settings.labels
    bert_tf.checkpoints.warm_start(model, checkpoint, require_all=True, labels=labels)
    return make(model, settings, options())


def as_it_is():
    """The model of --init_checkpoint as a `Servable`, for what --task says."""
    tasks, serving = bert_tf.tasks, bert_tf.serving
    found = bert_tf.cli.pipelines.model_files()
    if FLAGS.task == "sentence_embedding":
        # A folder of sentence-transformers says the length itself.
        encoder = bert_tf.SentenceEncoder.from_preset(found, max_seq_length=FLAGS.max_seq_length)
        return serving.sentence_embedding_servable(encoder, options())
    size = FLAGS.max_seq_length or (384 if FLAGS.task == "question_answering" else 128)
    if FLAGS.task == "fill_mask":
        words = bert_tf.FillMask.from_preset(found, max_seq_length=size)
        return serving.fill_mask_servable(
            words.model, words.tokenizer, size, options(), FLAGS.num_best
        )
    config, tokenizer = found.open()
    tasks.check_length(size, config)
    if FLAGS.task == "encoder":
        model = bert_tf.BertModel(config)
        bert_tf.checkpoints.warm_start(model, found.checkpoint, require_all=True)
        return serving.encoder_servable(model, tokenizer, size, options())
    common = (FLAGS.do_lower_case, config, FLAGS.vocab_file)
    if FLAGS.task == "question_answering":
        cut = tasks.question_answering.WindowConfig(max_seq_length=size).check()
        # Windows of short sequences must overlap too, or answers between them are lost.
        room = size - cut.max_query_length - 3
        cut = dataclasses.replace(cut, doc_stride=min(cut.doc_stride, max(1, room // 2)))
        choice = tasks.question_answering.DecodingConfig(
            version_2_with_negative=FLAGS.version_2_with_negative
        )
        settings = tasks.question_answering.SpanSettings(cut, choice, *common)
    elif FLAGS.task == "multiple_choice":
        settings = tasks.choice.ChoiceSettings(size, *common)
    elif FLAGS.task == "token_classification":
        labels = labels_of(found.checkpoint)
        scheme = scheme_of(labels)
        tags = tasks.token_classification.Tags(labels, scheme, scheme)
        settings = tasks.token_classification.TagSettings(
            tasks.token_classification.WindowConfig(size), tags, *common
        )
    else:
        labels = () if FLAGS.task == "regression" else labels_of(found.checkpoint)
        settings = tasks.Settings(labels, size, *common, FLAGS.task, num_texts=FLAGS.num_texts)
    return served(settings, found.checkpoint)


def scheme_of(tags):
    """Whether tags have spans, "iob2" for any that have, or are names, "none"."""
    try:
        found = bert_tf.tasks.token_classification.schemes.find_scheme([[tag] for tag in tags])
    except bert_tf.UserError:
        raise bert_tf.UserError(
            f"--labels: the model's tags are BILOU's ({', '.join(tags)}), which are not read; "
            "name them as iobes in the same order, with E for L and S for U"
        ) from None
    return found if found == "none" else "iob2"


def labels_of(checkpoint):
    """The labels of --labels, or those beside the checkpoint, in the order of their ids."""
    beside = bert_tf.checkpoints.read_metadata(checkpoint)
    ids = sorted(beside.get("id2label", {}).items(), key=lambda pair: int(pair[0]))
    said = beside.get("labels") or [label for _, label in ids]
    labels = tuple(FLAGS.labels or said)
    if not labels:
        raise bert_tf.UserError(f"--labels must be given: nothing beside {checkpoint} says them")
    if len(set(labels)) < len(labels):
        raise bert_tf.UserError(f"--labels: one is there twice in {', '.join(labels)}")
    return labels


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)

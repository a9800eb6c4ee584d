"""Load fine-tuned and pre-trained models of any task as a `serving.Servable`."""

import dataclasses

from bert_tf import checkpoints, tasks
from bert_tf.checkpoints.hugging_face import detect_architecture
from bert_tf.errors import UserError


def load_servable(model_files, serving_config):
    """Load `PretrainedFiles` as a `Servable`; the run or the head determines the task."""
    spec, config = tasks.load_config(model_files.folder)
    if spec is None:
        pipeline = _find_pipeline(model_files.checkpoint)
        return pipeline.from_preset(model_files)._servable(serving_config)
    config = dataclasses.replace(
        config,
        bert_config=model_files.bert_config,
        vocab_file=model_files.vocab_file,
        **model_files.tokenizer_settings,
    )
    return make_servable(spec, config, model_files.checkpoint, serving_config)


def make_servable(spec, config, checkpoint, serving_config):
    """Make the model of a `TaskConfig`, load its weights, and return it as a `Servable`."""
    model = spec.make_model(config)
    checkpoints.warm_start(model, checkpoint, require_all=True, labels=config.labels or None)
    return spec.make_servable(model, config, serving_config)


def _find_pipeline(checkpoint):
    architectures = checkpoints.read_metadata(checkpoint).get("architectures")
    shapes = checkpoints.open_checkpoint(checkpoint).shapes
    name = architectures[0] if architectures else detect_architecture(shapes)
    # The prefix depends on the architecture, as in "DistilBertForMaskedLM".
    head = name[name.find("For") :] if "For" in name else "Model"
    for spec in tasks.TASKS.values():
        if head in spec.heads:
            return spec.pipeline
    raise UserError(f"{checkpoint}: bert_tf has no task for the head of {name}")

"""The files of a pre-trained model, found by its name or beside its weights."""

import os
from typing import NamedTuple

from bert_tf import checkpoints, console, files
from bert_tf.checkpoints.hugging_face import CONFIG as THEIR_CONFIG
from bert_tf.checkpoints.metadata import beside, read_metadata
from bert_tf.config import BertConfig
from bert_tf.errors import UserError
from bert_tf.tasks.checks import check_vocabulary
from bert_tf.tokenization import FullTokenizer, casing_from_path


class ModelFiles(NamedTuple):
    """Weights, config, vocabulary and casing; None where nothing is known of one."""

    checkpoint: str
    config: str | None
    vocab: str | None
    do_lower_case: bool | None

    @property
    def flags(self):
        """The flags that make a script start from it, by name."""
        flags = {
            "init_checkpoint": self.checkpoint,
            "bert_config_file": self.config,
            "vocab_file": self.vocab,
            "do_lower_case": self.do_lower_case,
        }
        return {name: value for name, value in flags.items() if value is not None}

    def open(self, keep_special_tokens=False):
        """Reads config and vocabulary.

        Returns:
          (the `BertConfig`, a `FullTokenizer`)

        Raises:
          UserError: if one is missing, or the two do not fit together.
        """
        for name, flag, path in (
            ("config", "bert_config_file", self.config),
            ("vocabulary", "vocab_file", self.vocab),
        ):
            if path is None:
                raise UserError(f"`{flag}`: there is no {name} beside {self.checkpoint}")
        config = BertConfig.from_json_file(self.config)
        lower = self.do_lower_case
        if lower is None:
            lower = True
            console.warning(
                "nothing beside %s says whether its text is lower-cased: it is taken to be",
                self.checkpoint,
            )
        else:
            console.info("text is %s", "lower-cased" if lower else "not lower-cased")
        tokenizer = FullTokenizer(self.vocab, lower, keep_special_tokens)
        check_vocabulary(tokenizer.vocab, config, self.vocab)
        return config, tokenizer


def files_of(preset):
    """Finds the files of a model.

    Args:
      preset: a name of `checkpoints.MODELS`, a folder or checkpoint of the release or of a run, or
        a Hugging Face folder; `ModelFiles` are given back as they are.

    Returns:
      `ModelFiles`; the casing is what settings beside the weights say, else what the name of a
      published model in the path does.
    """
    if isinstance(preset, ModelFiles):
        return preset
    if preset in checkpoints.MODELS:
        found = checkpoints.fetch(preset)
        return ModelFiles(found.checkpoint, found.config, found.vocab, found.do_lower_case)
    folder = os.path.dirname(preset) if preset.endswith(".safetensors") else preset
    lower = read_metadata(folder).get("do_lower_case")
    if lower is None and (named := casing_from_path(preset)):
        lower = named[1]
    return ModelFiles(
        preset,
        beside(folder, (files.CONFIG, THEIR_CONFIG)),
        beside(folder, (files.VOCABULARY,)),
        lower,
    )

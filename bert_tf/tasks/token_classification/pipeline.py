"""Apply a token classifier: texts in, the entities in them out."""

import os
from typing import Any

from bert_tf.checkpoints import PretrainedFiles, read_metadata
from bert_tf.errors import UserError
from bert_tf.pipelines.arguments import check_texts
from bert_tf.pipelines.task_pipeline import TaskPipeline
from bert_tf.tasks.token_classification import SPEC, TokenClassificationConfig

_ARCHITECTURE = "BertForTokenClassification"


class TokenClassification(TaskPipeline):
    """Finds the entities in texts with a model that `run_ner.py` trained, or of Hugging Face.

    >>> ner = bert_tf.TokenClassification.from_preset("ner_output")
    >>> ner.predict(["Jim Henson was born in Greenville."])
    [{'entities': [...]}]

    Attributes:
      model: a `BertTokenClassifier`, a Keras model on token ids.
      config: its `tasks.TokenClassificationConfig`.
      tokenizer: the `BertTokenizer`.
    """

    spec = SPEC
    config: TokenClassificationConfig

    @classmethod
    def from_preset(
        cls,
        preset: str | os.PathLike | PretrainedFiles,
        max_seq_length: int | None = None,
        do_lower_case: bool | None = None,
        dtype: str | None = None,
    ) -> "TokenClassification":
        """Create the pipeline from a trained model.

        Args:
          preset: the output folder of `run_ner.py` or a checkpoint in it; a folder of
            `save_to_preset`; or a Hugging Face folder of `BertForTokenClassification`.
          max_seq_length: of a Hugging Face folder, the longest window in tokens; None for 128,
            or what the model supports if that is less.
          do_lower_case: of a Hugging Face folder, whether the model is uncased; None for the casing
            in its files.
          dtype: a Keras dtype policy such as "mixed_bfloat16".

        Raises:
          UserError: if there is no such model.
        """
        pipeline = cls._from_preset(
            preset, dtype, max_seq_length=max_seq_length, do_lower_case=do_lower_case
        )
        if pipeline._is_random:
            raise UserError(f"`preset`: {preset} has no token classifier")
        return pipeline

    @classmethod
    def _config_values(cls, checkpoint, stored, values):
        if stored:
            if values:
                raise UserError(
                    "`max_seq_length` and `do_lower_case` are those of the training, and cannot be "
                    f"given for {checkpoint}"
                )
            return values
        metadata = read_metadata(checkpoint)
        if _ARCHITECTURE not in metadata.get("architectures", ()):
            raise UserError(
                f"`preset`: {checkpoint} is neither a folder of run_ner.py nor a Hugging Face "
                f"folder of {_ARCHITECTURE}"
            )
        return {**values, "labels": metadata.get("labels", ())}

    def predict(self, texts: Any, batch_size: int = 32) -> list[dict[str, Any]]:
        """Return the entities in texts.

        Args:
          texts: list of str of any length.
          batch_size: number of texts that are read at a time.

        Returns:
          For each text a dict with "entities", a list of dicts: "entity", its text; "label";
          "start" and "end", the offsets of its first character and after its last one; and "score",
          the mean probability of its words.

        Raises:
          UserError: if `texts` is not such a list.
        """
        rows = [{"text": text} for text in check_texts(texts, "texts")]
        return self._answers(rows, batch_size)

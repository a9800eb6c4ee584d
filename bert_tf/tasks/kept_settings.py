"""What a fine-tuned model is besides its weights: config, vocabulary, and a task's own settings.

They lie in the output folder, for export and conversion, and so that a run is not continued as
something else. The settings of a task are a tuple with at least `config`, `vocab_file` and
`do_lower_case`; `files.SETTINGS` has the file of each script.
"""

import json
import os

import tensorflow as tf

from bert_tf import files
from bert_tf.config import BertConfig
from bert_tf.errors import UserError, reason


def save(output_dir, name, settings, values):
    """Writes settings into a folder.

    Args:
      output_dir: the folder.
      name: of the task's file, one of `files.SETTINGS`.
      settings: whose `config` and `vocab_file` are left there too.
      values: dict of all that is the task's own, as JSON has it.
    """
    texts = {
        files.CONFIG: settings.config.to_json_string(),
        files.VOCABULARY: files.read_text(settings.vocab_file),
        # The last: where it is, the others are.
        name: json.dumps(values, indent=2, ensure_ascii=False) + "\n",
    }
    files.write_texts({os.path.join(output_dir, x): text for x, text in texts.items()})


def load(output_dir, name, make):
    """Reads the settings in a folder.

    Args:
      output_dir: the folder.
      name: of the task's file.
      make: function from (the values of that file, a `BertConfig`, the vocabulary's path) to the
        settings; may raise KeyError or TypeError.

    Returns:
      What it makes; None if there is no such file.

    Raises:
      UserError: if a file is not what it should be.
    """
    path = os.path.join(output_dir, name)
    if not tf.io.gfile.exists(path):
        return None
    try:
        return make(
            json.loads(files.read_text(path)),
            BertConfig.from_json_file(os.path.join(output_dir, files.CONFIG)),
            os.path.join(output_dir, files.VOCABULARY),
        )
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise UserError(
            f"{path}: not the settings of {files.SETTINGS[name]} ({reason(error)})"
        ) from None


def check_kind(output_dir, name):
    """Raises UserError if the folder holds the run of a script other than that of `name`."""
    for other, script in files.SETTINGS.items():
        if other != name and tf.io.gfile.exists(os.path.join(output_dir, other)):
            raise UserError(
                f"`output_dir`: {output_dir} holds a run of {script}, by its {other}; give another "
                "`output_dir`"
            )


def check_same(output_dir, before, settings, shown=()):
    """Sees that a run goes on with the settings that it began with.

    Args:
      output_dir: the run's folder, for the error.
      before: the settings there.
      settings: those of the flags and the data.
      shown: names of further settings that must be the same, with values that an error can show.

    Raises:
      UserError: if they, the casing, the model or the vocabulary are others.
    """
    for name in (*shown, "do_lower_case", "config", "vocab_file"):
        old, new = getattr(before, name), getattr(settings, name)
        if name == "vocab_file":
            old, new = files.read_text(old), files.read_text(new)
        if old != new:
            is_short = name not in ("config", "vocab_file")
            there = f": {_text(old)} there, {_text(new)} now" if is_short else ""
            raise UserError(
                f"`output_dir`: {output_dir} holds a run with other {name}{there}; give the same "
                "again, or another `output_dir`"
            )


def _text(value):
    return ", ".join(value) or "none" if isinstance(value, (list, tuple)) else value

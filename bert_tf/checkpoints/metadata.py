"""What lies beside weights: config, vocabulary, and what other files say of them."""

import os
import re

import tensorflow as tf

from bert_tf import files
from bert_tf.checkpoints import hugging_face
from bert_tf.config import BertConfig
from bert_tf.errors import UserError


def beside(path, names):
    """The first of `names` that lies in the folder `path` or beside the file, None if none does."""
    folder = path if tf.io.gfile.isdir(path) else os.path.dirname(path)
    for name in names:
        if tf.io.gfile.exists(os.path.join(folder, name)):
            return os.path.join(folder, name)
    return None


def find_config(path):
    """Reads the config beside a checkpoint; UserError if there is none."""
    found = beside(path, (files.CONFIG, hugging_face.CONFIG))
    if found is None:
        raise UserError(
            f"`bert_config_file`: none is given, and there is no {files.CONFIG} or "
            f"{hugging_face.CONFIG} beside {path}"
        )
    return BertConfig.from_json_file(found)


def read_metadata(path):
    """What the files beside a checkpoint say of casing, labels and architecture, as one dict.

    `classifier.json`, `squad.json` and `tagger.json` are what run_classifier.py, run_squad.py and
    run_ner.py leave there, the others are Hugging Face's.
    """
    folder = path if tf.io.gfile.isdir(path) else os.path.dirname(path)
    found = {}
    ours = tuple(files.TASK_FILES)
    for name in ("tokenizer_config.json", hugging_face.CONFIG, *ours):
        found.update(hugging_face.settings_of(folder, name))
    if "data_scheme" in found:  # a tagger's, whose head is that of a classifier
        found |= {"labels": found["names"], "architectures": ["BertForTokenClassification"]}
    return found


def labels_beside(path, count):
    """What the files beside a checkpoint call the `count` rows of its head, None if nothing does.

    Names that transformers makes up ("LABEL_0") say nothing.
    """
    found = read_metadata(path)
    labels, ids = found.get("labels"), found.get("id2label")
    if not labels and isinstance(ids, dict):
        labels = [ids.get(str(i)) for i in range(len(ids))]
    if not labels or len(labels) != count or None in labels:
        return None
    return None if all(re.fullmatch(r"LABEL_\d+", str(x)) for x in labels) else labels

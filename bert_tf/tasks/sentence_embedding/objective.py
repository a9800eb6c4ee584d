"""Sentence embedding: examples, features, losses, metrics, runs and settings of folders."""

import functools
import itertools
import os
from typing import NamedTuple

import numpy as np
from keras import ops

from bert_tf import console
from bert_tf.checkpoints.metadata import HUGGING_FACE_CONFIG, containing_folder, read_json
from bert_tf.data import records
from bert_tf.data.columns import ID, RowErrors, columns_of, find_file, required_text
from bert_tf.data.features import Features, encode_batches
from bert_tf.data.labels import read_number
from bert_tf.data.tables import as_text, open_table
from bert_tf.errors import UserError
from bert_tf.io import files, json_files
from bert_tf.modeling.models import BertModel
from bert_tf.tasks.base import check_layers
from bert_tf.tasks.sentence_embedding.losses import ColumnModel, Pooling, make_loss
from bert_tf.tasks.sentence_embedding.options import (
    POOLINGS,
    SCORE_COLUMN,
    SINGLE_LOSSES,
    TEXT_COLUMNS,
    SentenceEmbeddingConfig,
)
from bert_tf.tasks.sentence_embedding.search import l2_normalize, search_scores
from bert_tf.tokenization.packing import pack_pair
from bert_tf.training.objective import Objective, TaskData
from bert_tf.training.results import METRICS

# Number of results in the search metrics, such as recall@10.
_K = 10

# Supported modules of a sentence-transformers folder.
_MODULES = ("Transformer", "Pooling", "Normalize")

# Metrics of pairs with scores, and of others.
_SCORED, _SEARCH = ("spearman", "pearson"), tuple(f"{x}@{_K}" for x in ("mrr", "ndcg", "recall"))


def make_model(config, dtype=None):
    pooling = Pooling(config.pooling, config.layer, config.normalize, config.truncate_dim)
    check_layers(f"layer={config.layer}", [config.layer], config.bert_config.num_hidden_layers)
    return ColumnModel(BertModel(config.bert_config, dtype=dtype), pooling)


class SentenceEmbeddingObjective(Objective):
    """Trains sentence vectors by comparing the texts of an example or of a batch."""

    loss_names = ("sentence_loss",)

    def __init__(self, model, config, data_format, is_dev_scored, is_training=True):
        """Create the task; `data_format` is (number of texts, whether they have scores)."""
        self.model = model
        self.model.mini_batch_size = config.mini_batch_size
        names = _SCORED if is_dev_scored else _SEARCH
        self.metric_names = tuple(f"eval_{name}" for name in names)
        self._is_scored = is_dev_scored
        names = ("loss", "temperature", "symmetric", "matryoshka_dims", "mini_batch_size")
        self.key = {name: getattr(config, name) for name in names}
        self.key |= {"num_texts": data_format[0], "has_scores": data_format[1]}
        self.compares_replicas = is_training and config.loss not in SINGLE_LOSSES
        self._make_loss = functools.partial(make_loss, config, *data_format)
        if is_training:  # else the data may not match `config.loss`
            self._make_loss()

    def losses(self, outputs, batch, weights, training=True):
        losses = self._make_loss()(batch["label_value"], outputs, batch["text_ids"])
        losses *= self.example_weights(batch)
        return {"sentence_loss": ops.sum(losses) / weights["examples"]}

    def keras_targets(self, batch, weights):
        return batch["label_value"], self.example_weights(batch) / weights["examples"]

    def predictions(self, outputs, batch):
        return {"vectors": outputs, **{name: batch[name] for name in ("label_value", "text_ids")}}

    def metrics(self, predictions):
        vectors = l2_normalize(predictions["vectors"])
        if self._is_scored:
            cosines = (vectors[:, 0] * vectors[:, 1]).sum(-1)
            scores = {x: float(METRICS[x](predictions["label_value"], cosines)) for x in _SCORED}
        else:
            scores = _search(vectors, predictions["text_ids"])
        return {f"eval_{name}": value for name, value in scores.items()}


def _search(vectors, text_ids):
    """Evaluate the search for each second text among all distinct ones, given the first text."""
    documents, document_ids = vectors[:, 1:].reshape(-1, vectors.shape[-1]), text_ids[:, 1:]
    document_ids, rows = np.unique(document_ids, return_index=True)
    query_ids, query_rows = np.unique(text_ids[:, 0], return_index=True)
    relevant = [set() for _ in query_ids]
    queries = np.searchsorted(query_ids, text_ids[:, 0])
    answers = np.searchsorted(document_ids, text_ids[:, 1])
    for query, document in zip(queries, answers, strict=True):
        relevant[query].add(document)
    return search_scores(vectors[query_rows, 0], documents[rows], relevant, _K)


_ENDINGS = (".tsv", ".csv", ".jsonl", ".parquet")


class Example(NamedTuple):
    """Two or three texts, their similarity score or None, and an id (default: the row number)."""

    texts: tuple
    score: float | None
    id: str


def make_examples(table, config):
    """Return the list of `Example` of a `Table`."""
    names, find, rows = columns_of(table)
    if config.text_columns:
        if len(config.text_columns) not in (2, 3):
            raise UserError(
                f"`text_columns`: found {', '.join(config.text_columns)}, expected two or three "
                "columns"
            )
        texts = [find([name], "text_columns") for name in config.text_columns]
    else:
        texts = [find(TEXT_COLUMNS[0], "text_columns"), find(TEXT_COLUMNS[1], "text_columns")]
        texts += filter(None, [find(TEXT_COLUMNS[2])])
    score, row_id = config.score_column, config.id_column
    score = find([score], "score_column") if score else find(SCORE_COLUMN)
    row_id = find([row_id], "id_column") if row_id else find(ID)
    if score in table.label_names:
        raise UserError(f"{table.header_place}: {score!r} has class labels, expected scores")
    if score and len(texts) == 3:
        raise UserError(f"{table.name}: found scores of {', '.join(texts)}, expected pairs")
    used = [*texts, *filter(None, (score, row_id))]

    def make(where, index, cells):
        parts = tuple(required_text(cells[name], name) for name in texts)
        value = score and read_number(required_text(cells[score], "the score"), "the score")
        cells = {name: as_text(cells[name]) for name in used}
        row = str(index) if row_id is None else cells[row_id]
        return Example(parts, value, row)

    examples = RowErrors(config.skip_bad_rows).examples(table.name, rows, make)
    scored = f"score {score}" if score else "no scores"
    ignored = ", ".join(name for name in names if name not in used)
    # In Python, only what is ignored is worth a message.
    log = console.notice if ignored and table.format.kind == "columns" else console.info
    log("%s: %s, %s; ignored: %s", table.name, " + ".join(texts), scored, ignored or "none")
    return examples


def convert_examples(examples, tokenizer, max_seq_length, text_ids, prompt, lengths=None):
    """Yield a dict for `records.SENTENCES` per example; `text_ids` are ids of distinct texts."""
    encoded = encode_batches(tokenizer, (prompt + x for e in examples for x in e.texts))
    for example in examples:
        rows = [
            pack_pair(next(encoded), [], tokenizer, max_seq_length, lengths) for _ in example.texts
        ]
        yield {
            **{name: [row[name] for row in rows] for name in rows[0]},
            "text_ids": [text_ids[x] for x in example.texts],
            "label_value": example.score or 0.0,
            "is_real_example": 1,
        }


class SentenceEmbeddingData(TaskData):
    """Holds `examples`, a dict from split to list of `Example`."""

    def _is_scored(self, split):
        return split in self.examples and self.examples[split][0].score is not None

    def features(self, split, tokenizer):
        examples, length = self.examples[split], self.config.max_seq_length
        text_ids = {}
        for text in itertools.chain(*(x.texts for x in examples)):
            text_ids.setdefault(text, len(text_ids))
        return Features.of_examples(
            examples, records.SENTENCES, convert_examples, tokenizer, self.config,
            ([*e.texts, e.score] for e in examples),
            {"S": length, "C": len(examples[0].texts)},
            options={"max_seq_length": length, "text_ids": text_ids, "prompt": self.config.prompt},
        )  # fmt: skip

    def make_objective(self, model, pad_to_max_length=False):
        is_training = "train" in self.examples
        split = "train" if is_training else next(iter(self.examples))
        data_format = len(self.examples[split][0].texts), self._is_scored(split)
        largest = max((x.score or 0 for x in self.examples[split]), key=abs)
        if is_training and self.config.loss == "cosine" and abs(largest) > 1:
            raise UserError(f"`loss=cosine`: found the score {largest:g}, expected -1 to 1")
        is_dev_scored = self._is_scored("dev")
        return SentenceEmbeddingObjective(
            model, self.config, data_format, is_dev_scored, is_training
        )

    def answers(self, objective, predictions, split):
        """Return the cosines of the first two texts."""
        vectors = l2_normalize(predictions["vectors"])
        cosines = np.einsum("nh,nh->n", vectors[:, 0], vectors[:, 1])
        return list(map(str, cosines)), (), cosines


def read(options, pretrained, splits, stored=None):
    """Read the data of a run; see `TaskSpec.read`."""
    examples, paths = {}, []
    for split in splits:
        path = getattr(options, f"{split}_file")
        names = [f"{split}{ending}" for ending in _ENDINGS]
        paths.append(find_file(split, names, options.data_dir, path))
        examples[split] = make_examples(open_table(paths[-1], options.delimiter), options)
    names = ("pooling", "layer", "normalize", "truncate_dim", "prompt", "prompts", "include_prompt",
             "max_seq_length")  # fmt: skip
    given = {x: getattr(options, x) for x in names if options.is_given(x)}
    if stored := stored or (
        pretrained.checkpoint and SentenceEmbeddingConfig.load(pretrained.config_folder)
    ):
        settings = {**{x: getattr(stored, x) for x in names}, **given}
    else:
        settings = encoder_settings(pretrained.checkpoint, given)
    config = SentenceEmbeddingConfig.of_model(options, pretrained, **settings)
    return SentenceEmbeddingData(examples, config, paths)


class _Module(NamedTuple):
    type: str
    path: str


def encoder_settings(path, given):
    """Return `given`, a dict of settings, with those of a sentence-transformers folder or defaults.

    `path` is a folder or a checkpoint, or None.
    """
    modules_file = path and os.path.join(containing_folder(path), "modules.json")
    if not (path and files.exists(modules_file)):
        return {"pooling": "mean", "normalize": False, **given}
    folder = os.path.dirname(modules_file)
    modules = json_files.read(modules_file, list[_Module], "sentence-transformers")
    modules = {module["type"].rpartition(".")[2]: module["path"] for module in modules}
    if [*modules] != [name for name in _MODULES if name in modules]:
        raise UserError(
            f"{modules_file}: found the modules {', '.join(modules)}; expected only "
            f"{', '.join(_MODULES)}, in this order"
        )
    pooling_file = os.path.join(folder, modules.get("Pooling", ""), "config.json")
    is_read = "Pooling" in modules and ("pooling" not in given or files.exists(pooling_file))
    settings = json_files.read(pooling_file, dict) if is_read else {}
    modes = settings.get("pooling_mode") or _older_modes(settings)
    model = read_json(folder, "config_sentence_transformers.json")
    name = model.get("default_prompt_name")
    prompts = model.get("prompts") or {}
    if name not in {None, *prompts} and "prompt" not in given:
        raise UserError(f"{folder}: default_prompt_name is {name!r}, which is not in prompts")
    prompt, includes_prompt = prompts.get(name, ""), settings.get("include_prompt") is not False
    if not includes_prompt and (used := given.get("prompt", prompt)):
        raise UserError(
            f"{pooling_file}: include_prompt is false, which is not supported with the prompt "
            f"{used!r}; `prompt` overrides a default prompt"
        )
    if (measure := model.get("similarity_fn_name") or "cosine") != "cosine":
        console.warning("%s has similarity_fn_name %s; `similarity` is the cosine", folder, measure)
    saved = {
        "pooling": modes if isinstance(modes, str) else ",".join(modes),
        "layer": -1,
        "normalize": "Normalize" in modules,
        "max_seq_length": _max_seq_length(folder),
        "truncate_dim": model.get("truncate_dim"),
        "prompt": prompt,
        "prompts": prompts,
        "include_prompt": includes_prompt,
    }
    for name, value in saved.items():
        if given.get(name, value) != value:
            message = "`%s=%s` overrides the setting: %s has %s"
            console.info(message, name, given[name], folder, value)
    used = [f"{x}={y}" for x, y in saved.items() if x not in given and y not in (None, "", {})]
    console.info("from the settings in %s: %s", folder, ", ".join(used))
    return {**saved, **given}


def _older_modes(settings):
    """Return the poolings of sentence-transformers before 5.4, which has a setting for each."""
    names = {setting: name for name, setting in POOLINGS.items()}
    # Without a file, the default of sentence-transformers is the mean.
    modes = [x for x, y in settings.items() if x.startswith("pooling_mode_") and y is True]
    return [names.get(x, x) for x in modes or ["none" if settings else POOLINGS["mean"]]]


def _max_seq_length(folder):
    if length := read_json(folder, "sentence_bert_config.json").get("max_seq_length"):
        return length
    limit = read_json(folder, HUGGING_FACE_CONFIG).get("max_position_embeddings", 512)
    return min(read_json(folder, files.TOKENIZER_CONFIG).get("model_max_length") or limit, limit)

"""`SentenceEncoder`: fine-tuning and prediction of sentence vectors, on strings."""

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from bert_tf import checkpoints, console
from bert_tf.checkpoints.metadata import HUGGING_FACE_CONFIG, containing_folder, read_json
from bert_tf.configs.model import BertConfig
from bert_tf.configs.train import BatchConfig
from bert_tf.data import records
from bert_tf.data.columns import find_file
from bert_tf.data.containers import check_same_length, iterate_texts, read_table
from bert_tf.data.features import Features
from bert_tf.data.tables import open_table
from bert_tf.errors import UserError
from bert_tf.io import files, json_files
from bert_tf.modeling.models import BertModel
from bert_tf.serving.exporting import Servable
from bert_tf.serving.prepared_model import prepare_model
from bert_tf.tasks.sentence_embedding.examples import ENDINGS, convert_examples, examples_of_table
from bert_tf.tasks.sentence_embedding.losses import Pooling, SentenceEmbeddingModel
from bert_tf.tasks.sentence_embedding.objective import LOSS_OPTIONS, SentenceEmbeddingObjective
from bert_tf.tasks.sentence_embedding.options import (
    POOLINGS,
    SCORE_COLUMN,
    TEXT_COLUMNS,
    SentenceEmbeddingConfig,
    SentenceEmbeddingData,
)
from bert_tf.tasks.sentence_embedding.search import cosines, l2_normalize, search_scores
from bert_tf.tasks.streams import TextStream, check_layers
from bert_tf.tokenization.settings import INPUTS
from bert_tf.training.objective import RunData

# The package of the module types in modules.json, and the modules that are supported.
_PACKAGE = "sentence_transformers.models"
_MODULES = ("Transformer", "Pooling", "Normalize")

# Column names of the arguments of `fit`.
_COLUMNS = (tuple(names[0] for names in TEXT_COLUMNS), SCORE_COLUMN[0])

_SCHEMA = {name: records.SENTENCES[name] for name in INPUTS}


def _first_vectors(vectors, batch):
    return {"vectors": vectors[:, 0]}


def sentence_embedding_servable(model, config, serving_config):
    """Return a `SentenceEmbeddingModel` with its `SentenceEmbeddingConfig` as a `Servable`.

    Text input: `text`. Output: `vectors`, float32 (B, H).
    """
    prepared = prepare_model(model.bert, config, serving_config)

    def serve_ids(inputs):
        return {"vectors": model.pooling.compute(prepared.call, inputs)}

    serve_text = prepared.with_tokenizer(serve_ids, "text")

    def with_prompt(inputs):
        return serve_text({"text": config.prompt + inputs["text"]})

    return Servable(
        "sentence_embedding",
        prepared,
        with_prompt if config.prompt else serve_text,
        serve_ids,
        metadata={"prompt": config.prompt} if config.prompt else None,
        add_to_onnx=lambda graph, inputs: {"vectors": model.pooling.add_to_onnx(graph, inputs)},
    )


class SentenceEncoder(TextStream):
    """Computes sentence vectors by pooling the token vectors of a layer; trains on pairs of texts.

    >>> encoder = bert_tf.SentenceEncoder.from_preset("uncased_L-12_H-768_A-12")
    >>> pairs = [("A man is eating.", "Somebody has dinner."), ("It rained.", "It was wet.")]
    >>> history = encoder.fit(pairs, epochs=1, verbose=0)
    >>> encoder.encode(["A man is eating.", "Somebody has dinner."])  # float32 (2, H)

    With scores, `evaluate` returns the Spearman and Pearson correlations of cosines and scores.
    Without, it returns MRR@10, nDCG@10 and recall@10 of searching for each second text given the
    first. `save_to_preset` writes a sentence-transformers folder without the layers above
    `config.layer`. `model` is a `SentenceEmbeddingModel`, whose `bert` is a `BertModel`; `config`
    is a `SentenceEmbeddingConfig`.

    Data of `fit` and `evaluate`:
      texts: list of pairs, or of triplets (text, similar text, different text); a tuple of two or
        three lists; or a table with columns such as "sentence1" and "sentence2" or "anchor",
        "positive" and "negative", and optionally "score".
      scores: list with the similarity of each pair, a number; None if all pairs are similar.

    Options of `fit`, which uses the losses of sentence-transformers:
      loss: one of
        "contrastive" (MultipleNegativesRankingLoss): find the second text of each example among
          the second and third texts of the batch, over all devices; the default without scores;
        "cosent" (CoSENTLoss): rank pairs by their scores; the default with scores;
        "cosine" (CosineSimilarityLoss): match cosines to scores from -1 to 1;
        "triplet" (TripletLoss): place the third text farther away than the second.
      temperature: divisor of the cosines in "contrastive" and "cosent", 0.05 by default.
      symmetric: whether "contrastive" also finds the first text given the second.
      matryoshka_dims: train on the sum of the losses of the vectors truncated to these lengths,
        which may include the full length.
      mini_batch_size: number of pairs or triplets to compute at a time, so that large batches fit
        in memory (GradCache); the results are the same, and a step takes about a third longer. None
        for the whole batch.
    """

    name = "sentence_embedding"
    config_class, data_class = SentenceEmbeddingConfig, SentenceEmbeddingData
    arguments = ("texts", "scores")
    fit_options = LOSS_OPTIONS
    activation = "linear"
    make_servable = staticmethod(sentence_embedding_servable)
    config: SentenceEmbeddingConfig

    @staticmethod
    def make_model(config, dtype=None):
        pooling = Pooling(config.pooling, config.layer, config.normalize, config.truncate_dim)
        check_layers(f"layer={config.layer}", [config.layer], config.bert_config.num_hidden_layers)
        return SentenceEmbeddingModel(BertModel(config.bert_config, dtype=dtype), pooling)

    @classmethod
    def preset_config(cls, pretrained, trained, **options):
        return options if trained else encoder_settings(pretrained.checkpoint, options)

    @classmethod
    def read_data(cls, data_options, config, pretrained, splits, trained=None):
        examples, paths = {}, []
        for split in splits:
            path = getattr(data_options, f"{split}_file")
            names = [f"{split}{ending}" for ending in ENDINGS]
            paths.append(find_file(split, names, data_options.data_dir, path))
            table = open_table(paths[-1], data_options.delimiter)
            examples[split] = examples_of_table(table, data_options)
        if not trained:
            saved = pretrained.checkpoint and cls.config_class.load(pretrained.config_folder)
            options = cls.preset_config(pretrained, saved, **config.given_options())
            config = (saved or config).with_options(**options)
        return RunData(examples, config.with_model(pretrained), data_options, paths)

    def features(self, data, split):
        examples, config = data.examples[split], data.config
        text_ids, length = {}, config.max_seq_length
        for text in itertools.chain(*(x.texts for x in examples)):
            text_ids.setdefault(text, len(text_ids))
        return Features.of_examples(
            examples, records.SENTENCES, convert_examples, self.tokenizer, config,
            data=([*e.texts, e.score] for e in examples),
            axes={"S": length, "C": len(examples[0].texts)},
            options={"max_seq_length": length, "text_ids": text_ids, "prompt": config.prompt},
        )  # fmt: skip

    def objective(self, data):
        options = data.options
        if options.mini_batch_size and keras.backend.backend() != "tensorflow":
            raise UserError("`mini_batch_size` requires the TensorFlow backend of Keras")
        scored = {split: x[0].score is not None for split, x in data.examples.items()}
        is_training = "train" in data.examples
        split = "train" if is_training else next(iter(data.examples))
        examples = data.examples[split]
        largest = max((x.score or 0 for x in examples), key=abs)
        if is_training and options.loss == "cosine" and abs(largest) > 1:
            raise UserError(f"`loss=cosine`: found the score {largest:g}, expected -1 to 1")
        return SentenceEmbeddingObjective(
            self.model, options, data.config.width, (len(examples[0].texts), scored[split]),
            scored.get("dev", False), is_training,
        )  # fmt: skip

    def result_columns(self, objective, data, predictions, split):
        """Return the cosines of the first two texts."""
        vectors = l2_normalize(predictions["vectors"])
        cosines = np.einsum("nh,nh->n", vectors[:, 0], vectors[:, 1])
        return list(map(str, cosines)), (), cosines

    def evaluate_search(
        self, queries: Any, documents: Any, relevant: Sequence[Iterable[int]], k: int = 10
    ) -> dict[str, float]:
        """Return a dict of recall@k, MRR@k and nDCG@k of a search by cosine.

        Args:
          queries: list of str.
          documents: list of str.
          relevant: for each query, the indices of its relevant documents.
          k: number of documents that are found for each query.
        """
        check_same_length("queries", queries, "relevant", relevant)
        query_vectors, vectors = (l2_normalize(self.encode(x)) for x in (queries, documents))
        return search_scores(query_vectors, vectors, relevant, k)

    def encode(
        self,
        texts: Any,
        batch_size: int = BatchConfig.batch_size,
        normalize_embeddings: bool = False,
        show_progress_bar: bool | None = None,
        prompt_name: str | None = None,
        prompt: str | None = None,
    ) -> np.ndarray:
        """Return the vectors of texts, float32 (B, H), or of a single text, float32 (H,).

        Args:
          texts: a str, or an iterable of str.
          batch_size: number of texts of the maximum length per batch; a batch may have more if they
            are shorter.
          normalize_embeddings: whether to scale the vectors to length 1.
          show_progress_bar: False for no progress bar.
          prompt_name: the name of one of `config.prompts` to put before each text.
          prompt: the text to put before each text; None for the named one, else `config.prompt`.
        """
        prompts = self.config.prompts
        if prompt_name not in {None, *prompts}:
            names = ", ".join(prompts) or "none"
            raise UserError(f"`prompt_name={prompt_name}`: expected one of {names}")
        prompt = prompts[prompt_name] if prompt is None and prompt_name else prompt
        is_text = isinstance(texts, str)
        loggers = ["bert_tf"] if show_progress_bar is False else []
        with console.at_level("WARNING", *loggers):
            rows = [x for _, x in self.stream([texts] if is_text else texts, batch_size, prompt)]
        vectors = np.array(rows, "float32").reshape(-1, self.config.width)
        if normalize_embeddings:
            vectors = l2_normalize(vectors)
        return vectors[0] if is_text else vectors

    predict = encode

    def similarity(self, a: Any, b: Any) -> np.ndarray:
        """Return the cosine of each vector in `a` (A, H) with each in `b` (B, H): (A, B)."""
        return cosines(*map(np.atleast_2d, map(l2_normalize, (a, b))))

    def stream(
        self, texts: Any, batch_size: int = BatchConfig.batch_size, prompt: str | None = None
    ) -> Iterator[tuple[str, np.ndarray]]:
        """Yield each text of an iterable of str and its vector (H,); iterators are read lazily.

        `batch_size` and `prompt` are as in `encode`.
        """
        texts = iterate_texts(texts, "texts")
        prompt = self.config.prompt if prompt is None else prompt
        if prompt and not self.config.include_prompt:
            raise UserError(f"`prompt={prompt}`: not supported by models with include_prompt=false")
        packed = self._pack((text, self.tokenizer.encode(prompt + text), []) for text in texts)
        # An example has one text.
        rows = ((text, {name: [x] for name, x in values.items()}) for text, values in packed)
        size = 4 * self.config.width
        pairs = self._run(_first_vectors, rows, _SCHEMA, batch_size, "reading sentences", size, C=1)
        for text, arrays in pairs:
            yield text, arrays["vectors"]

    def make_examples(self, columns, names, split):
        table, _ = read_table(columns, names, _COLUMNS, 1, TEXT_COLUMNS, SCORE_COLUMN)
        return examples_of_table(table, SentenceEmbeddingData())

    def _write_preset(self, folder):
        bert_config = self.config.bert_config
        prompts = dict(self.config.prompts)
        name = None
        if prompt := self.config.prompt:
            name = next((x for x, y in prompts.items() if y == prompt), "default")
            prompts[name] = prompt
        pooling, layer, normalize, truncate_dim = self.model.pooling
        num_layers = layer % bert_config.num_hidden_layers + 1
        unused = range(num_layers, bert_config.num_hidden_layers)
        unused = tuple(f"bert/encoder/layer_{i}/" for i in unused)
        tensors = checkpoints.tensors(self.model).items()
        tensors = {name: value for name, value in tensors if not name.startswith(unused)}
        fields = {**bert_config.to_dict(), "num_hidden_layers": num_layers}
        bert_config = BertConfig.from_dict(fields)
        modules = [*zip(_MODULES, ("", "1_Pooling", "2_Normalize"), strict=True)]
        modes = {setting: pooling == name for name, setting in POOLINGS.items()}
        if "," in pooling:  # in this order, which older versions do not read
            modes = {"pooling_mode": pooling.split(",")}
        modes["include_prompt"] = self.config.include_prompt
        contents = {
            "modules.json": [
                {"idx": i, "name": str(i), "path": path, "type": f"{_PACKAGE}.{module}"}
                for i, (module, path) in enumerate(modules[: 3 if normalize else 2])
            ],
            "sentence_bert_config.json": {"max_seq_length": self.config.max_seq_length},
            "1_Pooling/config.json": {"word_embedding_dimension": bert_config.hidden_size, **modes},
            "config_sentence_transformers.json": {
                "prompts": prompts,
                "default_prompt_name": name,
                "truncate_dim": truncate_dim,
            },
        }
        self._write_pretrained(folder, tensors, bert_config)
        for name, value in contents.items():
            json_files.write(os.path.join(folder, name), value)


class _Module(NamedTuple):
    type: str
    path: str


def encoder_settings(path, options):
    """Return `given`, a dict of settings, completed by a sentence-transformers folder or defaults.

    `path` is a folder or a checkpoint, or None.
    """
    modules_file = path and os.path.join(containing_folder(path), "modules.json")
    if not (path and files.exists(modules_file)):
        return {"pooling": "mean", "normalize": False, **options}
    folder = os.path.dirname(modules_file)
    modules = json_files.read(modules_file, list[_Module], "sentence-transformers")
    modules = {module["type"].rpartition(".")[2]: module["path"] for module in modules}
    if [*modules] != [name for name in _MODULES if name in modules]:
        expected = f"expected only {', '.join(_MODULES)}, in this order"
        raise UserError(f"{modules_file}: found the modules {', '.join(modules)}; {expected}")
    pooling_file = os.path.join(folder, modules.get("Pooling", ""), "config.json")
    is_read = "Pooling" in modules and ("pooling" not in options or files.exists(pooling_file))
    settings = json_files.read(pooling_file, dict) if is_read else {}
    modes = settings.get("pooling_mode") or _older_modes(settings)
    model = read_json(folder, "config_sentence_transformers.json")
    name = model.get("default_prompt_name")
    prompts = model.get("prompts") or {}
    if name not in {None, *prompts} and "prompt" not in options:
        raise UserError(f"{folder}: default_prompt_name is {name!r}, which is not in prompts")
    prompt, includes_prompt = prompts.get(name, ""), settings.get("include_prompt") is not False
    if not includes_prompt and (used := options.get("prompt", prompt)):
        found = f"include_prompt is false, which is not supported with the prompt {used!r}"
        raise UserError(f"{pooling_file}: {found}; `prompt` overrides a default prompt")
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
        if options.get(name, value) != value:
            message = "`%s=%s` overrides the setting: %s has %s"
            console.info(message, name, options[name], folder, value)
    used = [f"{x}={y}" for x, y in saved.items() if x not in options and y not in (None, "", {})]
    console.info("from the settings in %s: %s", folder, ", ".join(used))
    return {**saved, **options}


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

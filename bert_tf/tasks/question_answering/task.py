"""`QuestionAnswering`: fine-tuning and prediction of answers, on strings."""

import functools
import itertools
from collections.abc import Mapping
from typing import Annotated, Any

from bert_tf import console
from bert_tf.configs.base import check_value
from bert_tf.data.columns import header_and_rows
from bert_tf.data.containers import check_list, read_table
from bert_tf.data.features import log_long_texts
from bert_tf.errors import UserError
from bert_tf.io.json_files import Limits
from bert_tf.modeling import BertSpanLabeler
from bert_tf.tasks.base import Task
from bert_tf.tasks.question_answering import examples as reading
from bert_tf.tasks.question_answering.features import make_features
from bert_tf.tasks.question_answering.objective import (
    Answers,
    QuestionAnsweringObjective,
    extract_answers,
)
from bert_tf.tasks.question_answering.options import (
    NUM_SPECIAL_TOKENS,
    QuestionAnsweringConfig,
    QuestionAnsweringData,
)
from bert_tf.tasks.question_answering.served import question_answering_servable
from bert_tf.training.objective import RunData


class QuestionAnswering(Task):
    """Extractive question answering: answers are spans of a context.

    >>> qa = bert_tf.QuestionAnswering.from_preset("uncased_L-4_H-256_A-4")
    >>> context = "The inn was built in 1821 by a miller."
    >>> history = qa.fit(["When was it built?"], [context], ["1821"], epochs=1, verbose=0)
    >>> sorted(qa.predict("Who built it?", context))
    ['answer', 'end', 'score', 'start']

    `fit` skips questions whose answer is not in the context; a warning reports their number. Its
    `batch_size` is in windows. `model` is a `BertSpanLabeler`, `config` a
    `QuestionAnsweringConfig`.

    Data of `fit` and `evaluate`:
      question: list of str; or a table with the columns "question", "context" and "answers" or
        "answer".
      context: list of str, the context of each question.
      answers: list with one answer per question: a str; (text, start), where start is the offset of
        its first character; a dict with "text" and "answer_start" as in SQuAD; or None for no
        answer. A str is located by its first occurrence as whole words or, without one, by its
        first occurrence. A question may have a list of answers, of which training uses the first.
    """

    name = "question_answering"
    config_class, data_class = QuestionAnsweringConfig, QuestionAnsweringData
    arguments = ("question", "context", "answers")
    make_servable = staticmethod(question_answering_servable)
    config: QuestionAnsweringConfig

    @staticmethod
    def make_model(config, dtype=None):
        return BertSpanLabeler(config.bert_config, dtype=dtype)

    @classmethod
    def preset_config(cls, pretrained, trained, **options):
        if trained or "doc_stride" in options:
            return options
        default, limit = QuestionAnsweringConfig, pretrained.bert_config.max_position_embeddings
        length = options.get("max_seq_length", min(default.max_seq_length, limit))
        query_length = options.get("max_query_length", default.max_query_length)
        # If the default stride exceeds the window of a short sequence, windows do not overlap and
        # answers between them are lost.
        doc_stride = max(1, (length - query_length - NUM_SPECIAL_TOKENS) // 2)
        return {**options, "doc_stride": min(default.doc_stride, doc_stride)}

    @classmethod
    def read_data(cls, data_options, config, pretrained, splits, trained=None):
        finds_threshold = data_options.find_null_score_diff_threshold
        if finds_threshold and not config.version_2_with_negative:
            raise UserError("`find_null_score_diff_threshold` requires `version_2_with_negative`")
        is_scored = "dev" in splits or finds_threshold
        sources = {}
        if "train" in splits:
            sources["train"] = reading.make_source(data_options, "train")
            message = "the loss ignores padding; `pad_to_max_length` includes it, like the release"
            console.info(message)
        if is_scored or "test" in splits:
            sources["dev"] = reading.make_source(data_options, "dev")
        return _run_data(
            sources,
            config.with_model(pretrained),
            data_options,
            purpose="eval" if is_scored else "predict",
            paths=[x.name for x in sources.values() if not data_options.tfds_name],
        )

    def run_data(self, examples):
        sources = {}
        for split, pairs in examples.items():
            if split == "train":  # also for Keras' validation
                pairs = itertools.starmap(reading.with_exact_answer, pairs)
            paragraphs = functools.partial(reading.group_by_context, list(pairs))
            sources[split] = reading.Questions("`question`", paragraphs)
        return _run_data(sources, self.config, QuestionAnsweringData())

    def features(self, data, split):
        source = data.examples[split]
        return make_features(
            source.paragraphs(), self.tokenizer, data.config, split == "train",
            *source.summary, data.options.num_processes,
        )  # fmt: skip

    @staticmethod
    def training_size(data, features=None):
        return data.examples["train"].summary.questions, "questions"

    def objective(self, data):
        extract = functools.partial(self._extract_answers, data)
        mask_padding = not data.pad_to_max_length
        return QuestionAnsweringObjective(self.model, data.config, extract, mask_padding)

    def _extract_answers(self, data, predictions):
        source = data.examples["dev"]
        verbose = data.options.verbose_logging
        return extract_answers(predictions, source, self.tokenizer, data.config, verbose)

    def write_results(self, objective, data, split, batches, folder, evaluates, predicts):
        """Write predictions.json and its companion files; return the metrics and the config.

        The config gets the threshold of `find_null_score_diff_threshold`.
        """
        extracted = self._extract_answers(data, batches)
        answers = Answers(data.config, extracted, keeps_all=predicts and folder)
        if data.options.find_null_score_diff_threshold:
            answers.find_threshold()
        if predicts and folder:
            answers.write(folder)
        scores = answers.score().results() if evaluates else {}
        return {f"eval_{name}": value for name, value in scores.items()}, answers.config

    def predict(
        self, question: Any, context: Any = None, batch_size: int = 8, top_k: int = 1
    ) -> Any:
        """Answer questions.

        Args:
          question: a str or a dict with "question" and "context", or questions as in `fit`.
          context: a str for a list of questions, or a list with one context per question.
          batch_size: number of questions per batch.
          top_k: number of answers to each question, at most `config.n_best_size`.

        Returns:
          A list of dicts, or one dict for a single question:
            "answer": the text, "" for no answer;
            "start" and "end": its character offsets in the context (end exclusive), -1 for no
              answer;
            "score": its probability among the best answers;
            "null_odds": with `version_2_with_negative`, the score of "no answer" minus the score of
              the best answer.
          If `top_k` is not 1, there is a list of dicts for each question, best first.

        Raises:
          UserError: if an argument is invalid.
        """
        check_value("top_k", top_k, Annotated[int, Limits(1, self.config.n_best_size)])
        is_one = isinstance(question, str)
        if is_one:
            question, context = [question], [context]
        elif isinstance(context, str):
            question = check_list(question, "question", "a list of questions for one context")
            context = [context] * len(question)
        elif isinstance(question, Mapping):
            is_one = isinstance(question.get("question"), str)
        pairs = self.make_examples((question, context), self.arguments, "test")
        log_long_texts(
            "question", [[question.text] for _, question in pairs], self.tokenizer, self.config,
            with_special_tokens=False, limit=self.config.max_query_length, max_limit=None,
            unit="questions", option="max_query_length",
        )  # fmt: skip
        rows = [{"question": question.text, "context": context} for context, question in pairs]
        for name in self.arguments[:2]:
            self._warn_if_blank(name, [row[name] for row in rows])
        answers = self._answers(rows, batch_size, {"top_k": top_k} if top_k > 1 else None)
        if top_k > 1:
            columns = [zip(*x.values(), strict=True) for x in answers]
            lists = [[dict(zip(answers[0], x, strict=True)) for x in rows] for rows in columns]
            # A short context has fewer spans.
            answers = [[x for i, x in enumerate(rows) if x["score"] or not i] for rows in lists]
        return answers[0] if is_one else answers

    def make_examples(self, columns, names, split):
        """Return a list of (context, `Question`)."""
        table, _ = read_table(columns, names, self.arguments, 3 - (split == "test"))
        _, find, rows = header_and_rows(table)
        question, context = find(("question",), names[0]), find(("context",), names[1])
        answers = find(("answers", "answer"), names[2]) if split != "test" else None

        def make_question(index, where, row):
            if isinstance(row, dict):
                values = {"id": str(index), "question": row[question], "context": row[context]}
                row = {**values, "answers": row.get(answers) or []}
            return reading.question_of_row(where, row)

        pairs = [make_question(i, *row) for i, row in enumerate(rows)]
        if split == "train" and (count := sum(len(x.answers or ()) > 1 for _, x in pairs)):
            console.notice("%d questions have several answers; training uses the first", count)
        return pairs

    def _validation(self, data, records, objective, batch_size):
        # The records of "dev" have no positions of answers.
        paragraphs = data.examples["dev"].paragraphs()
        pairs = [(x.context, question) for x in paragraphs for question in x.questions]
        data = self.run_data({"train": pairs})
        features = self.features(data, "train")
        records = features, features.in_memory("reading answers")
        return super()._validation(data, records, objective, batch_size)


def _run_data(sources, config, options, purpose="eval", paths=()):
    """Validate the questions of each split; return their `RunData`.

    `purpose` is what the split "dev" is for, see `validate_and_count`. A run evaluates and predicts
    this split.
    """
    checks = config.version_2_with_negative, config.by_offsets
    for split, source in sources.items():
        aim = purpose if split == "dev" else split
        source.summary = reading.validate_and_count(source, aim, *checks)
    return RunData(sources, config, options, paths, predicted_split="dev")

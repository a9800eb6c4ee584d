"""A plain Python port of the release's SQuAD features, as a baseline for speed.

It tokenizes the context for every question, searches all windows for the maximum context of every
token, and fills a `tf.train.Example` value by value for every record.
"""

import collections
import json

import tensorflow as tf

SPACES = " \t\r\n\u202f"


class PlainFeatures:
    """Converts the questions of a SQuAD file to serialized records for training."""

    def __init__(self, tokenizer, max_seq_length=384, doc_stride=128, max_query_length=64):
        """Create it from a `plain_tokenizer.PlainTokenizer` and the sizes of a window."""
        self.tokenizer = tokenizer
        self.max_seq_length, self.doc_stride = max_seq_length, doc_stride
        self.max_query_length = max_query_length

    def examples(self, path):
        """Return a list of (question, words of the context, first and last word, answer)."""
        with open(path, encoding="utf-8") as reader:
            articles = json.load(reader)["data"]
        examples = []
        for article in articles:
            for paragraph in article["paragraphs"]:
                words, word_of, is_new = [], [], True
                for char in paragraph["context"]:
                    if char in SPACES:
                        is_new = True
                    else:
                        if is_new:
                            words.append(char)
                        else:
                            words[-1] += char
                        is_new = False
                    word_of.append(len(words) - 1)
                for question in paragraph["qas"]:
                    (answer,) = question["answers"]
                    start = answer["answer_start"]
                    span = word_of[start], word_of[start + len(answer["text"]) - 1]
                    covered = " ".join(words[span[0] : span[1] + 1])
                    if " ".join(answer["text"].split()) in covered:
                        examples.append((question["question"], words, span, answer["text"]))
        return examples

    def records(self, examples):
        """Yield the records, in the order of `examples`."""
        unique_id = 1_000_000_000
        for text, words, span, answer in examples:
            query = self.tokenizer.tokenize(text)[: self.max_query_length]
            first_of, tokens, word_of = [], [], []
            for number, word in enumerate(words):
                first_of.append(len(tokens))
                for piece in self.tokenizer.tokenize(word):
                    word_of.append(number)
                    tokens.append(piece)
            start, end = first_of[span[0]], len(tokens) - 1
            if span[1] < len(words) - 1:
                end = first_of[span[1] + 1] - 1
            start, end = self.tightened(tokens, start, end, answer)
            windows, begin = [], 0
            max_length = self.max_seq_length - len(query) - 3
            while begin < len(tokens):
                length = min(len(tokens) - begin, max_length)
                windows.append((begin, length))
                if begin + length == len(tokens):
                    break
                begin += min(length, self.doc_stride)
            for index, (begin, length) in enumerate(windows):
                pieces, segments = ["[CLS]", *query, "[SEP]"], [0] * (len(query) + 2)
                to_word, is_max_context = {}, {}
                for token in range(begin, begin + length):
                    to_word[len(pieces)] = word_of[token]
                    is_max_context[len(pieces)] = self.best_window(windows, token) == index
                    pieces.append(tokens[token])
                    segments.append(1)
                pieces.append("[SEP]")
                segments.append(1)
                ids = [self.tokenizer.vocab[piece] for piece in pieces]
                mask = [1] * len(ids)
                while len(ids) < self.max_seq_length:
                    ids.append(0)
                    mask.append(0)
                    segments.append(0)
                positions = 0, 0
                if start >= begin and end < begin + length:
                    shift = len(query) + 2 - begin
                    positions = start + shift, end + shift
                yield self.record(unique_id, ids, mask, segments, positions)
                unique_id += 1

    def tightened(self, tokens, start, end, answer):
        """Return the narrowest span within (start, end) whose tokens match the answer."""
        expected = " ".join(self.tokenizer.tokenize(answer))
        for first in range(start, end + 1):
            for last in range(end, first - 1, -1):
                if " ".join(tokens[first : last + 1]) == expected:
                    return first, last
        return start, end

    def best_window(self, windows, token):
        """Return the index of the window in which a token has its maximum context."""
        best, best_score = None, None
        for index, (begin, length) in enumerate(windows):
            end = begin + length - 1
            if begin <= token <= end:
                score = min(token - begin, end - token) + 0.01 * length
                if best_score is None or score > best_score:
                    best, best_score = index, score
        return best

    def record(self, unique_id, ids, mask, segments, positions):
        """Serialize one window."""

        def feature(values):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=list(values)))

        features = collections.OrderedDict()
        features["unique_ids"] = feature([unique_id])
        features["input_ids"] = feature(ids)
        features["input_mask"] = feature(mask)
        features["segment_ids"] = feature(segments)
        features["start_positions"] = feature([positions[0]])
        features["end_positions"] = feature([positions[1]])
        features["is_impossible"] = feature([0])
        example = tf.train.Example(features=tf.train.Features(feature=features))
        return example.SerializeToString()

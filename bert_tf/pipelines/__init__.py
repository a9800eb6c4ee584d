"""Pipelines that apply, train, save and export models on strings."""

from bert_tf.pipelines.feature_extraction import TextVectors, TokenVectors
from bert_tf.pipelines.text_pipeline import (
    SINGLE_PROCESS_MESSAGE,
    Text,
    TextPipeline,
    TextPreprocessor,
    read_texts,
)
from bert_tf.pipelines.tokenizer_layer import BertTokenizer
from bert_tf.pipelines.vector_files import array_writer, json_line

__all__ = [
    "SINGLE_PROCESS_MESSAGE",
    "BertTokenizer",
    "Text",
    "TextPipeline",
    "TextPreprocessor",
    "TextVectors",
    "TokenVectors",
    "array_writer",
    "json_line",
    "read_texts",
]

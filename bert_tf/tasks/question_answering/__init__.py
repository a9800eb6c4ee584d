"""Answering questions about a context: SQuAD 1.1 and 2.0 (BERT paper, sections 4.2 and 4.3).

`reading` reads questions, `features` converts them to windows and writes these to records,
`alignment` relates characters, words and tokens, `task` has the model, `decoding` turns its logits
into answers, `scoring` compares them with those of the data, and `data` ties them together for a
run.
"""

from bert_tf.lazy import lazy_names

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "config": ("QuestionAnsweringConfig",),
        "data": ("SPEC", "PredictionWriter", "QuestionAnsweringData", "make_model", "read"),
        "features": ("window_cache",),
        "pipeline": (),
        "reading": ("JsonSource", "TfdsQuestions", "validate_and_count"),
        "scoring": ("Scorer",),
        "servable": (),
        "task": ("AnswerExtractor", "QuestionAnsweringTask"),
    },
)

#!/usr/bin/env python3
r"""Fine-tune BERT sentence vectors on pairs of texts, evaluate and score pairs.

Pairs of a question and its answer, in the columns anchor and positive:

    python run_sentence_encoder.py --train_file=train.tsv --dev_file=dev.tsv \
      --model=hf://sentence-transformers/all-MiniLM-L6-v2 --do_train \
      --do_eval --output_dir=/tmp/encoder

Pairs with a similarity score, with other column names:

    python run_sentence_encoder.py --data_dir=sts --text_columns=first,second \
      --score_column=similarity --model=uncased_L-12_H-768_A-12 --do_train \
      --do_eval --output_dir=/tmp/similarity
"""

from bert_tf.cli.flags import TRAINING_BACKENDS, make_main, run
from bert_tf.tasks.sentence_embedding.options import SentenceEmbeddingConfig, SentenceEmbeddingData

main = make_main("sentence_embedding", SentenceEmbeddingData, SentenceEmbeddingConfig)

if __name__ == "__main__":
    run(main, backends=TRAINING_BACKENDS)

#!/usr/bin/env python3
r"""Fine-tune BERT to tag words (named entities, parts of speech), evaluate and predict.

A folder with train.txt, dev.txt and test.txt in the format of CoNLL-2003:

    python run_ner.py --data_dir=conll2003 --model=cased_L-12_H-768_A-12 \
      --do_train --do_eval --do_predict --output_dir=/tmp/ner

Tag other files with the trained model:

    python run_ner.py --test_file=new.txt --do_predict --output_dir=/tmp/ner
"""

from bert_tf.cli.flags import TRAINING_BACKENDS, make_main, run
from bert_tf.tasks.token_classification.options import (
    TokenClassificationConfig,
    TokenClassificationData,
)

main = make_main("token_classification", TokenClassificationData, TokenClassificationConfig)

if __name__ == "__main__":
    run(main, backends=TRAINING_BACKENDS)

#!/usr/bin/env python3
r"""Fine-tune BERT to classify or score texts or pairs of texts, evaluate and predict.

A task of GLUE, with a model of the 2018 release:

    python run_classifier.py --task_name=MRPC --data_dir=glue_data/MRPC \
      --model=uncased_L-12_H-768_A-12 --do_train --do_eval \
      --output_dir=/tmp/mrpc

Your own table with the columns text and label. A tenth of the rows is held out for evaluation, and
the checkpoint with the best accuracy predicts the labels of another table:

    python run_classifier.py --train_file=reviews.csv --dev_fraction=0.1 \
      --test_file=new.csv --model=uncased_L-12_H-768_A-12 --do_train \
      --do_eval --do_predict --eval_steps=200 --best_metric=eval_accuracy \
      --output_dir=/tmp/reviews
"""

from bert_tf.cli.flags import TRAINING_BACKENDS, make_main, run
from bert_tf.tasks.classification.options import ClassificationConfig, ClassificationData

main = make_main("classification", ClassificationData, ClassificationConfig)

if __name__ == "__main__":
    run(main, backends=TRAINING_BACKENDS)

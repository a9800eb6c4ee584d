#!/usr/bin/env python3
r"""Fine-tune BERT to answer questions about a text, evaluate and predict.

SQuAD 1.1:

    python run_squad.py --train_file=train-v1.1.json \
      --predict_file=dev-v1.1.json --model=uncased_L-12_H-768_A-12 --do_train \
      --do_predict --do_eval --train_batch_size=12 --learning_rate=3e-5 \
      --num_train_epochs=2 --output_dir=/tmp/squad

Answer other questions with the trained model:

    python run_squad.py --predict_file=questions.json --do_predict \
      --output_dir=/tmp/squad
"""

from bert_tf.cli.flags import TRAINING_BACKENDS, make_main, run
from bert_tf.tasks.question_answering.options import QuestionAnsweringConfig, QuestionAnsweringData

main = make_main("question_answering", QuestionAnsweringData, QuestionAnsweringConfig)

if __name__ == "__main__":
    run(main, backends=TRAINING_BACKENDS)

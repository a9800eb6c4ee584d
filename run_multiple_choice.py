#!/usr/bin/env python3
r"""Fine-tune BERT to choose between endings of a text, evaluate and predict.

SWAG:

    python run_multiple_choice.py --data_dir=swag \
      --model=uncased_L-12_H-768_A-12 --do_train --do_eval \
      --train_batch_size=16 --learning_rate=2e-5 --output_dir=/tmp/swag

Your own table, with other column names:

    python run_multiple_choice.py --train_file=train.csv --dev_file=dev.csv \
      --context_columns=question --ending_columns=a,b,c --label_column=answer \
      --model=uncased_L-12_H-768_A-12 --do_train --do_eval \
      --output_dir=/tmp/choices
"""

from bert_tf.cli.flags import TRAINING_BACKENDS, make_main, run
from bert_tf.tasks.multiple_choice.options import MultipleChoiceConfig, MultipleChoiceData

main = make_main("multiple_choice", MultipleChoiceData, MultipleChoiceConfig)

if __name__ == "__main__":
    run(main, backends=TRAINING_BACKENDS)

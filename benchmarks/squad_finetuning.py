#!/usr/bin/env python3
"""Fine-tune a Hugging Face model on SQuAD 1.1 with run_squad.py and with transformers, and score.

Both start from the same weights and read the same records, with the same number of steps, batch
size, learning rate, warm-up, weight decay and clipping. The schedule (see `peer_training`), the
order of the examples, dropout and the initial weights of the head differ, so the scores vary as
they do between seeds. Both are scored by bert_tf.

    python benchmarks/squad_finetuning.py --model=FOLDER --train_file=train.json \
        --predict_file=dev.json --seeds=0,1,2 --output_dir=/tmp/squad
"""

import os

import peer_training
from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS

flags.DEFINE_string("model", None, "Hugging Face folder with vocab.txt.", required=True)
flags.DEFINE_string("train_file", None, "SQuAD 1.1 JSON file.", required=True)
flags.DEFINE_string("predict_file", None, "SQuAD 1.1 JSON file.", required=True)
flags.DEFINE_string("output_dir", None, "Folder for all outputs.", required=True)
flags.DEFINE_list(
    "libraries", ["bert_tf", "transformers"], "Libraries to train with; bert_tf must be first."
)
flags.DEFINE_list("seeds", ["0", "1", "2"], "Seeds to train with.")
flags.DEFINE_float("num_train_epochs", 3.0, "Number of training epochs.")
flags.DEFINE_integer("train_batch_size", 16, "Training batch size.")
flags.DEFINE_float("learning_rate", 1e-4, "Peak learning rate.")
flags.DEFINE_integer("max_seq_length", 256, "Maximum sequence length.")


def folder_of(seed):
    return os.path.join(FLAGS.output_dir, "bert_tf", f"seed_{seed}")


def train_bert_tf(seed):
    """Return the scores of run_squad.py, which also writes the records."""
    bert_tf.commands.run(
        "run_squad.py",
        do_train=True,
        do_eval=True,
        train_file=FLAGS.train_file,
        predict_file=FLAGS.predict_file,
        **peer_training.model_flags(FLAGS.model),
        output_dir=folder_of(seed),
        num_train_epochs=FLAGS.num_train_epochs,
        train_batch_size=FLAGS.train_batch_size,
        learning_rate=FLAGS.learning_rate,
        max_seq_length=FLAGS.max_seq_length,
        warmup_proportion=peer_training.WARMUP,
        # With bias correction of the moments, as in PyTorch.
        optimizer="adamw",
        predict_batch_size=16,
        seed=seed,
    )
    return peer_training.eval_results(folder_of(seed))


def read(path, schema):
    """Return all records of a file as a dict of arrays (N, ...)."""
    import tensorflow as tf

    from bert_tf.data import records

    serialized = list(tf.data.TFRecordDataset(path).as_numpy_iterator())
    batch = records.parse(tf.constant(serialized), schema, {"S": FLAGS.max_seq_length})
    return {name: value.numpy() for name, value in batch.items()}


def train_transformers(seed):
    """Return the scores of the same training with transformers."""
    import numpy as np
    import torch
    from transformers import BertForQuestionAnswering

    from bert_tf.data import records
    from bert_tf.tasks import question_answering as squad

    folder = folder_of(seed)
    torch.manual_seed(seed)
    model = BertForQuestionAnswering.from_pretrained(FLAGS.model)

    def inputs(rows):
        return {
            "input_ids": torch.tensor(rows["input_ids"], dtype=torch.long),
            "attention_mask": torch.tensor(rows["input_mask"], dtype=torch.long),
            "token_type_ids": torch.tensor(rows["segment_ids"], dtype=torch.long),
        }

    def select(values, rows):
        return {name: value[rows] for name, value in values.items()}

    train = read(os.path.join(folder, "train.tf_record"), records.SQUAD_TRAINING)

    def batch_of(rows):
        batch = select(train, rows)
        positions = {
            name: torch.tensor(batch[name], dtype=torch.long)
            for name in ("start_positions", "end_positions")
        }
        return {**inputs(batch), **positions}

    questions = squad.validate_and_count(
        squad.JsonSource(FLAGS.train_file, "train_file"), "train"
    ).questions
    peer_training.train(
        model,
        batch_of,
        len(train["input_ids"]),
        int(questions / FLAGS.train_batch_size * FLAGS.num_train_epochs),
        FLAGS.train_batch_size,
        FLAGS.learning_rate,
        seed,
    )
    windows = read(os.path.join(folder, "eval.tf_record"), records.SQUAD)
    config = squad.QuestionAnsweringConfig(max_seq_length=FLAGS.max_seq_length).resolve()
    outputs_of_batches: list = []
    for start in range(0, len(windows["input_ids"]), 16):
        batch = select(windows, slice(start, start + 16))
        with torch.no_grad():
            outputs = model(**inputs(batch))
        values = {"unique_ids": batch["unique_ids"]}
        for side in ("start", "end"):
            logits = outputs[f"{side}_logits"].numpy()
            best = np.argsort(-logits, axis=-1, kind="stable")[:, : config.n_best_size]
            values |= {side: best, f"null_{side}": logits[:, 0]}
            values[f"{side}_logits"] = np.take_along_axis(logits, best, -1)
        outputs_of_batches.append(values)
    tokenizer = bert_tf.FullTokenizer(os.path.join(FLAGS.model, "vocab.txt"))
    source = squad.JsonSource(FLAGS.predict_file, "predict_file")
    predictions = squad.PredictionWriter(config)
    extractor = squad.AnswerExtractor(source, tokenizer, config)
    predictions.collect(extractor.answers(outputs_of_batches))
    scores = predictions.score().results()
    return {f"eval_{name}": float(scores[name]) for name in ("exact_match", "f1")}


def main():
    peer_training.compare(train_bert_tf, train_transformers, list(map(int, FLAGS.seeds)))


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)

#!/usr/bin/env python3
"""Fine-tunes a Hugging Face model on SQuAD 1.1 with run_squad.py and with transformers, and scores.

Both start from the same weights, read the same records and make as many steps with the same batch
size, learning rate, warm-up, weight decay and clipping; what differs is the library, the line of
the schedule (`peer_training` says how), the order of the examples, dropout and the first weights of
the head. So the scores differ by as much as those of several seeds do. Both are scored by bert_tf.

    python benchmarks/squad_finetuning.py --model=FOLDER --train_file=train.json \
        --predict_file=dev.json --seeds=0,1,2 --output_dir=/tmp/squad
"""

import os

import peer_training
from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS

flags.DEFINE_string("model", None, "Hugging Face folder with vocab.txt.", required=True)
flags.DEFINE_string("train_file", None, "JSON file of SQuAD 1.1.", required=True)
flags.DEFINE_string("predict_file", None, "JSON file of SQuAD 1.1.", required=True)
flags.DEFINE_string("output_dir", None, "Folder for all that is made.", required=True)
flags.DEFINE_list("who", ["bert_tf", "transformers"], "Who is to train; bert_tf goes first.")
flags.DEFINE_list("seeds", ["0", "1", "2"], "Seeds of both.")
flags.DEFINE_float("num_train_epochs", 3.0, "Number of times to go through the training set.")
flags.DEFINE_integer("train_batch_size", 16, "Batch size.")
flags.DEFINE_float("learning_rate", 1e-4, "The initial learning rate.")
flags.DEFINE_integer("max_seq_length", 256, "Longest sequence.")


def folder_of(seed):
    return os.path.join(FLAGS.output_dir, "bert_tf", f"seed_{seed}")


def ours(seed):
    """Scores of run_squad.py, which also makes the records."""
    bert_tf.commands.run(
        "run_squad.py",
        do_train=True,
        do_eval=True,
        train_file=FLAGS.train_file,
        predict_file=FLAGS.predict_file,
        **peer_training.of_folder(FLAGS.model),
        output_dir=folder_of(seed),
        num_train_epochs=FLAGS.num_train_epochs,
        train_batch_size=FLAGS.train_batch_size,
        learning_rate=FLAGS.learning_rate,
        max_seq_length=FLAGS.max_seq_length,
        warmup_proportion=peer_training.WARMUP,
        # It corrects the bias of the moments, as PyTorch's does.
        optimizer="adamw",
        predict_batch_size=16,
        seed=seed,
    )
    return peer_training.eval_results(folder_of(seed))


def read(path, schema):
    """All records of a file: dict of arrays (N, ...)."""
    import tensorflow as tf

    from bert_tf.data import records

    serialized = list(tf.data.TFRecordDataset(path).as_numpy_iterator())
    batch = records.parse(tf.constant(serialized), schema, {"S": FLAGS.max_seq_length})
    return {name: value.numpy() for name, value in batch.items()}


def theirs(seed):
    """Scores of the same training by transformers and PyTorch."""
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

    def some(values, rows):
        return {name: value[rows] for name, value in values.items()}

    train = read(os.path.join(folder, "train.tf_record"), records.SQUAD_TRAINING)

    def batch_of(rows):
        batch = some(train, rows)
        places = {
            name: torch.tensor(batch[name], dtype=torch.long)
            for name in ("start_positions", "end_positions")
        }
        return {**inputs(batch), **places}

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
    asked = read(os.path.join(folder, "eval.tf_record"), records.SQUAD)
    choice, found = squad.DecodingConfig(), []
    for start in range(0, len(asked["input_ids"]), 16):
        batch = some(asked, slice(start, start + 16))
        with torch.no_grad():
            outputs = model(**inputs(batch))
        values = {"unique_ids": batch["unique_ids"]}
        for side in ("start", "end"):
            logits = outputs[f"{side}_logits"].numpy()
            best = np.argsort(-logits, axis=-1, kind="stable")[:, : choice.n_best_size]
            values |= {side: best, f"null_{side}": logits[:, 0]}
            values[f"{side}_logits"] = np.take_along_axis(logits, best, -1)
        found.append(values)
    tokenizer = bert_tf.FullTokenizer(os.path.join(FLAGS.model, "vocab.txt"))
    source = squad.JsonSource(FLAGS.predict_file, "predict_file")
    results = squad.Results(choice)
    cut = squad.WindowConfig(max_seq_length=FLAGS.max_seq_length)
    results.collect(squad.AnswerExtractor(source, tokenizer, cut, choice).answers(found))
    scores = results.score().results()
    return {f"eval_{name}": float(scores[name]) for name in ("exact_match", "f1")}


def main():
    peer_training.compare(ours, theirs, list(map(int, FLAGS.seeds)))


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)

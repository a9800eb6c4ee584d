#!/usr/bin/env python3
"""Fine-tunes a Hugging Face model on SQuAD 1.1 with run_squad.py and with transformers, and scores.

Both start from the same weights, read the same records and make as many steps with the same batch
size, learning rate, warm-up, weight decay and clipping; what differs is the library, the order of
the examples, dropout and the first weights of the head. So the scores differ by as much as those of
several seeds do. Both are scored by bert_tf.

    python benchmarks/squad_finetuning.py --model=FOLDER --train_file=train.json \
        --predict_file=dev.json --seeds=0,1,2
"""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("model", None, "Hugging Face folder with vocab.txt.", required=True)
flags.DEFINE_string("train_file", None, "JSON file of SQuAD 1.1.", required=True)
flags.DEFINE_string("predict_file", None, "JSON file of SQuAD 1.1.", required=True)
flags.DEFINE_list("seeds", ["0", "1", "2"], "Seeds of both.")
flags.DEFINE_float("num_train_epochs", 3.0, "Number of times to go through the training set.")
flags.DEFINE_integer("train_batch_size", 16, "Batch size.")
flags.DEFINE_float("learning_rate", 1e-4, "The initial learning rate.")
flags.DEFINE_integer("max_seq_length", 256, "Longest sequence.")
flags.DEFINE_integer("max_steps", 0, "Stop transformers after so many steps, to try the script.")

WARMUP = 0.1


def ours(folder, seed):
    """Scores of run_squad.py, which also makes the records."""
    script = pathlib.Path(__file__).resolve().parent.parent / "run_squad.py"
    settings = {
        "train_file": FLAGS.train_file,
        "predict_file": FLAGS.predict_file,
        "vocab_file": os.path.join(FLAGS.model, "vocab.txt"),
        "bert_config_file": os.path.join(FLAGS.model, "config.json"),
        "init_checkpoint": FLAGS.model,
        "output_dir": folder,
        "num_train_epochs": FLAGS.num_train_epochs,
        "train_batch_size": FLAGS.train_batch_size,
        "learning_rate": FLAGS.learning_rate,
        "max_seq_length": FLAGS.max_seq_length,
        "warmup_proportion": WARMUP,
        # It corrects the bias of the moments, as PyTorch's does.
        "optimizer": "adamw",
        "predict_batch_size": 16,
        "seed": seed,
    }
    given = [f"--{name}={value}" for name, value in settings.items()]
    command = [sys.executable, str(script), "--do_train", "--do_eval", *given]
    subprocess.run(command, check=True)
    text = pathlib.Path(folder, "eval_results.txt").read_text()
    found = dict(line.split(" = ") for line in text.splitlines())
    return float(found["eval_exact_match"]), float(found["eval_f1"])


def read(path, schema):
    """All records of a file: dict of arrays (N, ...)."""
    import tensorflow as tf

    from bert_tf.data import records

    serialized = list(tf.data.TFRecordDataset(path).as_numpy_iterator())
    batch = records.parse(tf.constant(serialized), schema, {"S": FLAGS.max_seq_length})
    return {name: value.numpy() for name, value in batch.items()}


def theirs(folder, seed):
    """Scores of the same training by transformers and PyTorch."""
    import numpy as np
    import torch
    from transformers import BertForQuestionAnswering

    import bert_tf
    from bert_tf.data import records
    from bert_tf.tasks import squad

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

    def decays(name):
        return "LayerNorm" not in name and not name.endswith("bias")

    named = list(model.named_parameters())
    groups = [
        {"params": [p for name, p in named if decays(name)], "weight_decay": 0.01},
        {"params": [p for name, p in named if not decays(name)], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=FLAGS.learning_rate, eps=1e-6)
    questions = squad.survey(squad.JsonSource(FLAGS.train_file, "train_file"), "train").questions
    steps = int(questions / FLAGS.train_batch_size * FLAGS.num_train_epochs)
    warmup = int(steps * WARMUP)

    def rate(step):
        return step / warmup if step < warmup else 1.0 - step / steps

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    train = read(os.path.join(folder, "train.tf_record"), records.SQUAD_TRAINING)
    rng, order = np.random.default_rng(seed), []
    model.train()
    for step in range(min(steps, FLAGS.max_steps or steps)):
        if len(order) < FLAGS.train_batch_size:
            order += rng.permutation(len(train["input_ids"])).tolist()
        rows, order = order[: FLAGS.train_batch_size], order[FLAGS.train_batch_size :]
        batch = some(train, rows)
        places = {
            name: torch.tensor(batch[name], dtype=torch.long)
            for name in ("start_positions", "end_positions")
        }
        loss = model(**inputs(batch), **places).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 10 == 0:
            print(f"transformers, step {step}/{steps}, loss {loss.item():.4f}", flush=True)
    model.eval()
    asked = read(os.path.join(folder, "eval.tf_record"), records.SQUAD)
    choice, found = squad.Choice(), []
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
    cut = squad.Cut(max_seq_length=FLAGS.max_seq_length)
    results.collect(squad.Asked(source, tokenizer, cut, choice).answers(found))
    scores = results.score().results()
    return scores["exact_match"], scores["f1"]


def main(_):
    found = {"bert_tf": [], "transformers": []}
    with tempfile.TemporaryDirectory() as folder:
        for seed in map(int, FLAGS.seeds):
            output_dir = os.path.join(folder, str(seed))
            for name, train in (("bert_tf", ours), ("transformers", theirs)):
                start = time.monotonic()
                scores = train(output_dir, seed)
                found[name].append(scores)
                minutes = (time.monotonic() - start) / 60
                print(
                    f"{name}, seed {seed}: exact match {scores[0]:.2f}, F1 {scores[1]:.2f}, "
                    f"{minutes:.1f} minutes",
                    flush=True,
                )
    print("| | exact match | F1 | F1 from - to |")
    print("| --- | --- | --- | --- |")
    for name, scores in found.items():
        exact, f1 = zip(*scores, strict=True)
        print(
            f"| {name} | {statistics.mean(exact):.2f} | {statistics.mean(f1):.2f} | "
            f"{min(f1):.2f} - {max(f1):.2f} |"
        )


if __name__ == "__main__":
    app.run(main)

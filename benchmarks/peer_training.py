"""What the comparisons with transformers have in common: the same training in PyTorch.

AdamW with bias correction, decay but for biases and norms, clipping to 1, batches that go on from
one epoch to the next: as the scripts do with --optimizer=adamw. The schedule is transformers' own,
linear from the greatest rate at the end of warm-up to 0; the release's line begins at step 0, so
that its rate is a tenth lower after a warm-up of a tenth.
"""

import json
import logging
import os
import sys

import numpy as np
from absl import flags

import bert_tf

FLAGS = flags.FLAGS
_logger = logging.getLogger("bert_tf")

flags.disclaim_key_flags()

WARMUP, DECAY, EPSILON = 0.1, 0.01, 1e-6

# Flags that one result does not depend on.
_NO_SETTINGS = ("output_dir", "who", "num_seeds", "seeds")


def define_flags(num_seeds):
    """The flags of comparisons whose sets lie in one folder; `num_seeds` is the default of one."""
    flags.DEFINE_string("data_dir", None, "Folder with the files of the sets.")
    flags.DEFINE_string("model_dir", None, "Hugging Face folder of the pre-trained model.")
    flags.DEFINE_string("output_dir", None, "Folder for all that is made.")
    flags.DEFINE_list("who", ["bert_tf", "transformers"], "Who is to train.")
    flags.DEFINE_integer("num_seeds", num_seeds, "Seeds 0, 1, ...")
    flags.DEFINE_float("learning_rate", 5e-5, "Greatest learning rate.")
    flags.DEFINE_integer("batch_size", 32, "Batch size of training.")
    flags.DEFINE_float("num_train_epochs", 3.0, "Epochs.")
    flags.DEFINE_integer("max_seq_length", 128, "Longest sequence.")
    flags.mark_flags_as_required(["data_dir", "model_dir", "output_dir"])


def by_script(script, seed, **more):
    """Runs a script as a user would, with the flags of `define_flags` and more.

    Returns: as `eval_results`.
    """
    folder = os.path.join(FLAGS.output_dir, "bert_tf", f"seed_{seed}")
    bert_tf.commands.run(
        script,
        do_train=True,
        do_eval=True,
        data_dir=FLAGS.data_dir,
        **of_folder(FLAGS.model_dir),
        optimizer="adamw",
        learning_rate=FLAGS.learning_rate,
        warmup_proportion=WARMUP,
        train_batch_size=FLAGS.batch_size,
        num_train_epochs=FLAGS.num_train_epochs,
        max_seq_length=FLAGS.max_seq_length,
        seed=seed,
        output_dir=folder,
        **more,
    )
    return eval_results(folder)


def of_folder(folder):
    """The flags of a script, by name, that start from a Hugging Face folder."""
    return {
        "vocab_file": os.path.join(folder, "vocab.txt"),
        "bert_config_file": os.path.join(folder, "config.json"),
        "init_checkpoint": folder,
    }


def train(model, batch_of, count, num_steps, batch_size, learning_rate, seed):
    """Trains a model of transformers.

    Args:
      model: the model, whose call returns a `loss`.
      batch_of: function from a list of numbers of examples to the arguments of that call.
      count: the number of examples.
      num_steps: steps.
      batch_size: examples of a step.
      learning_rate: the greatest rate.
      seed: of the order.
    """
    import torch

    plain = ("bias", "LayerNorm.weight")
    named = list(model.named_parameters())
    groups = [
        {"params": [p for name, p in named if not name.endswith(plain)], "weight_decay": DECAY},
        {"params": [p for name, p in named if name.endswith(plain)], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=learning_rate, eps=EPSILON)
    warmup = int(num_steps * WARMUP)

    def rate(step):
        return step / warmup if step < warmup else (num_steps - step) / (num_steps - warmup)

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    order = np.random.RandomState(seed)
    epochs = num_steps * batch_size // count + 1
    rows = np.concatenate([order.permutation(count) for _ in range(epochs)]).tolist()
    model.train()
    for step in range(num_steps):
        start = step * batch_size
        loss = model(**batch_of(rows[start : start + batch_size])).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 50 == 0:
            _logger.info("transformers, step %d/%d, loss %.4f", step, num_steps, loss.item())
    model.eval()


def compare(ours, theirs, seeds):
    """Runs both sides seed by seed, as far as --who says, and prints what they got.

    Args:
      ours: function of the script that is run, from a seed to a dict of results.
      theirs: the same of transformers.
      seeds: numbers.
    """
    run = {"bert_tf": ours, "transformers": theirs}
    defined = FLAGS.get_key_flags_for_module(sys.argv[0])
    settings = {flag.name: flag.value for flag in defined if flag.name not in _NO_SETTINGS}
    found = {}
    for who in FLAGS.who:
        path = os.path.join(FLAGS.output_dir, f"{who}.json")
        found[who] = seed_by_seed(path, seeds, run[who], settings)
    for who, results in found.items():
        tell(who, results)


def seed_by_seed(path, seeds, run, settings):
    """The results of seeds, kept in a JSON file: what was cut off goes on with those missing.

    Args:
      path: the file.
      seeds: numbers.
      run: function from a seed to a dict of its results.
      settings: what they depend on, a dict of what JSON can hold.

    Returns:
      List of dicts in the order of `seeds`.

    Raises:
      UserError: if the file holds results of other settings.
    """
    kept = {"settings": settings, "seeds": {}}
    if os.path.exists(path):
        kept = json.loads(bert_tf.files.read_text(path))
    before, found = kept.get("settings"), kept.get("seeds")
    if before != settings:
        names = sorted(x for x in settings if (before or {}).get(x) != settings[x])
        raise bert_tf.UserError(
            f"{path}: its results are of other flags ({', '.join(names)}); give the same again, or "
            "another --output_dir"
        )
    for seed in map(str, seeds):
        if seed not in found:
            found[seed] = run(int(seed))
            print(f"{path}, seed {seed}: {found[seed]}", flush=True)
            bert_tf.files.write_text(path, json.dumps(kept, indent=1) + "\n")
    return [found[str(seed)] for seed in seeds]


def tell(who, results):
    """Prints mean, deviation and values of each result."""
    for name in results[0]:
        values = np.array([result[name] for result in results])
        deviation = values.std(ddof=1) if len(values) > 1 else 0.0
        print(
            f"{who:12} {name:14} mean {values.mean():.4f}  deviation {deviation:.4f}  "
            + " ".join(f"{value:.4f}" for value in values)
        )


def eval_results(folder):
    """What a script wrote to eval_results.txt: dict of numbers, without loss and step."""
    lines = bert_tf.files.read_text(os.path.join(folder, "eval_results.txt")).splitlines()
    found = dict(line.split(" = ") for line in lines)
    left_out = ("loss", "eval_loss", "global_step")
    return {name: float(value) for name, value in found.items() if name not in left_out}

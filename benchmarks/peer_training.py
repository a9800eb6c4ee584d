"""Shared by the comparisons with transformers: the same training in PyTorch.

AdamW with bias correction, weight decay except for biases and norms, clipping to a norm of 1, and
batches that continue across epochs, as in the scripts with --optimizer=adamw. The schedule comes
from transformers and decays linearly from the peak at the end of warm-up to 0. The release's decay
starts at step 0, so after a warm-up of a tenth of the steps its rate is a tenth lower.
"""

import json
import logging
import os
import sys
import time

import numpy as np
from absl import flags

import bert_tf

FLAGS = flags.FLAGS
_logger = logging.getLogger("bert_tf")

flags.disclaim_key_flags()

WARMUP, DECAY, EPSILON = 0.1, 0.01, 1e-6

# Flags that do not change the result of a seed.
_UNRELATED = ("output_dir", "libraries", "num_seeds", "seeds")


def define_flags(num_seeds):
    """Define the flags of comparisons whose data is in one folder.

    Args:
      num_seeds: the default of --num_seeds.
    """
    flags.DEFINE_string("data_dir", None, "Folder with the training and development files.")
    flags.DEFINE_string("model_dir", None, "Hugging Face folder of the pre-trained model.")
    flags.DEFINE_string("output_dir", None, "Folder for all outputs.")
    flags.DEFINE_list("libraries", ["bert_tf", "transformers"], "Libraries to train with.")
    flags.DEFINE_integer("num_seeds", num_seeds, "Number of seeds, from 0.")
    flags.DEFINE_float("learning_rate", 5e-5, "Peak learning rate.")
    flags.DEFINE_integer("batch_size", 32, "Training batch size.")
    flags.DEFINE_float("num_train_epochs", 3.0, "Number of training epochs.")
    flags.DEFINE_integer("max_seq_length", 128, "Maximum sequence length.")
    flags.mark_flags_as_required(["data_dir", "model_dir", "output_dir"])


def run_script(script, seed, **options):
    """Run a script as a user would, with the flags of `define_flags` and `options`.

    Returns:
      The results of `eval_results`.
    """
    folder = os.path.join(FLAGS.output_dir, "bert_tf", f"seed_{seed}")
    bert_tf.commands.run(
        script,
        do_train=True,
        do_eval=True,
        data_dir=FLAGS.data_dir,
        **model_flags(FLAGS.model_dir),
        optimizer="adamw",
        learning_rate=FLAGS.learning_rate,
        warmup_proportion=WARMUP,
        train_batch_size=FLAGS.batch_size,
        num_train_epochs=FLAGS.num_train_epochs,
        max_seq_length=FLAGS.max_seq_length,
        seed=seed,
        output_dir=folder,
        **options,
    )
    return eval_results(folder)


def model_flags(folder):
    """Return the flags, by name, with which a script starts from a Hugging Face folder."""
    return {
        "vocab_file": os.path.join(folder, "vocab.txt"),
        "bert_config_file": os.path.join(folder, "config.json"),
        "init_checkpoint": folder,
    }


def train(model, batch_of, count, num_steps, batch_size, learning_rate, seed):
    """Train a model of transformers.

    Args:
      model: the model, whose call returns a `loss`.
      batch_of: function from a list of example indices to the arguments of that call.
      count: number of examples.
      num_steps: number of steps.
      batch_size: number of examples in a step.
      learning_rate: peak learning rate.
      seed: seed of the order of the examples.
    """
    import torch

    no_decay = ("bias", "LayerNorm.weight")
    named = list(model.named_parameters())
    groups = [
        {"params": [p for name, p in named if not name.endswith(no_decay)], "weight_decay": DECAY},
        {"params": [p for name, p in named if name.endswith(no_decay)], "weight_decay": 0.0},
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


def compare(train_bert_tf, train_transformers, seeds):
    """Train with the libraries of --libraries in turn, seed by seed, and print the results.

    Args:
      train_bert_tf: function from a seed to a dict of results.
      train_transformers: the same with transformers.
      seeds: sequence of int.
    """
    run = {"bert_tf": train_bert_tf, "transformers": train_transformers}
    defined = FLAGS.get_key_flags_for_module(sys.argv[0])
    settings = {flag.name: flag.value for flag in defined if flag.name not in _UNRELATED}
    paths = {x: os.path.join(FLAGS.output_dir, f"{x}.json") for x in FLAGS.libraries}
    for seed in seeds:
        for library, path in paths.items():
            run_seeds(path, [seed], run[library], settings)
    for library, path in paths.items():
        print_results(library, run_seeds(path, seeds, run[library], settings))


def run_seeds(path, seeds, run, settings):
    """Return the results of seeds, stored in a JSON file; only the missing seeds are run.

    Args:
      path: path of the file.
      seeds: sequence of int.
      run: function from a seed to a dict of its results.
      settings: dict of the flags that the results depend on, for JSON.

    Returns:
      List of dicts in the order of `seeds`, with the `seconds` that a run took, start-up included.

    Raises:
      UserError: if the file has results of different settings.
    """
    saved = {"settings": settings, "seeds": {}}
    if os.path.exists(path):
        saved = json.loads(bert_tf.io.files.read_text(path))
    saved_settings, results = saved.get("settings"), saved.get("seeds")
    if saved_settings != settings:
        names = sorted(x for x in settings if (saved_settings or {}).get(x) != settings[x])
        raise bert_tf.UserError(
            f"{path} has results of a run with different flags ({', '.join(names)}); repeat the "
            "flags of that run, or give another --output_dir"
        )
    for seed in map(str, seeds):
        if seed not in results:
            started = time.perf_counter()
            results[seed] = run(int(seed))
            results[seed]["seconds"] = time.perf_counter() - started
            print(f"{path}, seed {seed}: {results[seed]}", flush=True)
            bert_tf.io.files.write_text(path, json.dumps(saved, indent=1) + "\n")
    return [results[str(seed)] for seed in seeds]


def print_results(library, results):
    """Print mean, standard deviation and values of each metric."""
    for name in results[0]:
        values = np.array([result[name] for result in results])
        deviation = values.std(ddof=1) if len(values) > 1 else 0.0
        print(
            f"{library:12} {name:14} mean {values.mean():.4f}  deviation {deviation:.4f}  "
            + " ".join(f"{value:.4f}" for value in values)
        )


def eval_results(folder):
    """Return the metrics of eval_results.txt as a dict of floats, without loss and step."""
    lines = bert_tf.io.files.read_text(os.path.join(folder, "eval_results.txt")).splitlines()
    results = dict(line.split(" = ") for line in lines)
    other = ("loss", "eval_loss", "global_step")
    return {name: float(value) for name, value in results.items() if name not in other}

"""Shared by the comparisons with transformers: the same training in PyTorch.

AdamW with bias correction, weight decay except for biases and norms, clipping to a norm of 1, and
batches that continue across epochs, as in the scripts with --optimizer=adamw. The schedule comes
from transformers and decays linearly from the peak at the end of warm-up to 0. The release's decay
starts at step 0, so after a warm-up of a tenth of the steps its rate is a tenth lower.
"""

import time

import helpers
import numpy as np
from absl import flags

FLAGS = flags.FLAGS
WARMUP, DECAY, EPSILON = 0.1, 0.01, 1e-6


def define_flags(num_seeds):
    """Define the flags of comparisons; `num_seeds` is the default of --num_seeds."""
    flags.DEFINE_string("data_dir", None, "Folder with training and development files.")
    flags.DEFINE_string("model_dir", None, "Hugging Face folder of the pre-trained model.")
    flags.DEFINE_list("libraries", ["bert_tf", "transformers"], "Libraries to train with.")
    flags.DEFINE_integer("num_seeds", num_seeds, "Number of seeds, from 0.")
    flags.DEFINE_float("learning_rate", 5e-5, "Peak learning rate.")
    flags.DEFINE_integer("batch_size", 32, "Training batch size.")
    flags.DEFINE_float("num_train_epochs", 3.0, "Number of training epochs.")
    flags.DEFINE_integer("max_seq_length", 128, "Maximum sequence length.")
    flags.mark_flags_as_required(["data_dir", "model_dir"])


def compare(**libraries):
    """Train with the libraries of --libraries in turn, seed by seed, and print the results.

    Args:
      **libraries: for each library a function from a seed to a dict of results.
    """
    results = {name: [] for name in FLAGS.libraries}
    for seed in range(FLAGS.num_seeds):
        for name, values in results.items():
            start = time.perf_counter()
            values.append(libraries[name](seed))
            values[-1]["seconds"] = time.perf_counter() - start  # with start-up and compilation
            print(f"{name}, seed {seed}: {values[-1]}", flush=True)
    helpers.print_head("", "", "mean", "standard deviation")
    for name, values in results.items():
        for metric in values[0]:
            x = np.array([value[metric] for value in values])
            deviation = x.std(ddof=1) if len(x) > 1 else 0.0
            helpers.print_row(name, metric, f"{x.mean():.4f}", f"{deviation:.4f}")


def train(model, batch_of, count, seed):
    """Train a model of PyTorch.

    Args:
      model: the model, whose call returns a `loss`.
      batch_of: function from a list of example indices to the arguments of that call.
      count: number of examples.
      seed: seed of the order of the examples.
    """
    import torch

    no_decay = ("bias", "LayerNorm.weight")
    named = list(model.named_parameters())
    groups = [
        {"params": [p for name, p in named if not name.endswith(no_decay)], "weight_decay": DECAY},
        {"params": [p for name, p in named if name.endswith(no_decay)], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=FLAGS.learning_rate, eps=EPSILON)
    num_steps = int(count / FLAGS.batch_size * FLAGS.num_train_epochs)
    warmup = int(num_steps * WARMUP)

    def rate(step):
        return step / warmup if step < warmup else (num_steps - step) / (num_steps - warmup)

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    order = np.random.RandomState(seed)
    epochs = num_steps * FLAGS.batch_size // count + 1
    rows = np.concatenate([order.permutation(count) for _ in range(epochs)]).tolist()
    model.train()
    for step in range(num_steps):
        start = step * FLAGS.batch_size
        loss = model(**batch_of(rows[start : start + FLAGS.batch_size])).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    model.eval()

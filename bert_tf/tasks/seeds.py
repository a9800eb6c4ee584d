"""What several runs that differ in their seeds came to."""

import os

import numpy as np
import tensorflow as tf

from bert_tf import console, files


def seed_folder(output_dir, seed):
    """The folder of one of the runs."""
    return os.path.join(output_dir, f"seed_{seed}")


def seed_folders(output_dir):
    """The names of the folders of such runs."""
    names = (name.rstrip("/") for name in tf.io.gfile.listdir(output_dir))
    return sorted(name for name in names if name.startswith("seed_"))


def write_seeds(path, results):
    """Writes a table of the results of all runs, and their mean and spread; prints these.

    Args:
      path: the file, tab-separated with a header.
      results: dict from seed to what `Trainer.evaluate` returned.
    """
    names = sorted(next(iter(results.values())))
    values = np.array([[found[name] for name in names] for found in results.values()], "float64")
    rows = {str(seed): row for seed, row in zip(results, values, strict=True)}
    # Of a sample: the runs stand for all that might have been made.
    spread = {"mean": values.mean(0), "std": values.std(0, ddof=1)}
    rows |= {**spread, "min": values.min(0), "max": values.max(0)}
    lines = ["\t".join(["seed", *names])]
    lines += ["\t".join([name, *map(str, row)]) for name, row in rows.items()]
    files.write_text(path, "\n".join(lines) + "\n")
    console.info("%s, %d seeds:", path, len(results))
    for i, name in enumerate(names):
        if name != "global_step":
            mean, std, least, most = (rows[row][i] for row in ("mean", "std", "min", "max"))
            console.info("  %s = %.4f, std %.4f, %.4f to %.4f", name, mean, std, least, most)

"""What several runs that differ in their seeds came to."""

import numpy as np

from bert_tf import console, files


def folder_name(seed):
    """The name of the folder of one of them."""
    return f"seed_{seed}"


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
    deviation = values.std(0, ddof=1)
    rows |= {"mean": values.mean(0), "deviation": deviation}
    rows |= {"least": values.min(0), "greatest": values.max(0)}
    lines = ["\t".join(["seed", *names])]
    lines += ["\t".join([name, *map(str, row)]) for name, row in rows.items()]
    files.write_text(path, "\n".join(lines) + "\n")
    console.info("%s, %d seeds:", path, len(results))
    for name, mean, spread, least, greatest in zip(
        names, rows["mean"], deviation, rows["least"], rows["greatest"], strict=True
    ):
        if name != "global_step":
            console.info(
                "  %s = %.4f, deviation %.4f, %.4f to %.4f", name, mean, spread, least, greatest
            )

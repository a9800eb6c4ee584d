"""The file that every evaluation ends in."""

from bert_tf import console, files


def write_eval_results(path, results):
    """Writes `eval_results.txt` as the release does: `name = value`, sorted by name."""
    lines = [f"{name} = {results[name]}" for name in sorted(results)]
    for line in lines:
        console.info("  %s", line)
    files.write_text(path, "\n".join(lines) + "\n")

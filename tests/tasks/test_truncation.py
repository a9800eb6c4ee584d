"""One log line per split counts the truncated texts."""

import pytest

from tests.common import write_model
from tests.tasks.task_helpers import SMALL


@pytest.mark.parametrize("pairs", [False, True])
def test_each_split_of_a_run(pairs, run_script, tmp_path, experiments):
    """The line is also logged when features are reused."""
    second = "\ta b" if pairs else ""
    header = "text_a\ttext_b\tlabel" if pairs else "text\tlabel"
    data = {"train": ["a b c d e f g h", "a"], "dev": ["a"], "test": ["a " * 9]}
    for split, texts in data.items():
        rows = [f"{text.strip()}{second}\t{i % 2}" for i, text in enumerate(texts)]
        (tmp_path / f"{split}.tsv").write_text("\n".join([header, *rows]) + "\n")
    flags = [*write_model(tmp_path, **SMALL), "--task_name=tsv", f"--data_dir={tmp_path}",
             "--max_seq_length=8", "--train_batch_size=1",
             "--do_train", "--do_eval", "--do_predict",
             f"--output_dir={tmp_path}/out"]  # fmt: skip
    for _ in range(2):
        log = run_script("run_classifier", *flags)
        longest = 13 if pairs else 10
        assert (
            f"train: 1 of 2 texts (50.0%) have more than 8 tokens and are truncated, the longest "
            f"has {longest}; a larger --max_seq_length (at most "
        ) in log
        assert "test: 1 of 1 texts (100.0%) have more than 8 tokens" in log
        assert "dev: 1 of" not in log
        # Pairs cannot use windows.
        assert (", --long_documents=windows reads them in windows" in log) == (not pairs)

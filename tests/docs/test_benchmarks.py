"""The code that the comparisons with transformers share."""

import sys

import pytest
from absl.testing import flagsaver

import bert_tf


@pytest.fixture
def peer_training(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    import peer_training

    return peer_training


def test_saved_results_are_reused_with_the_same_flags_only(
    peer_training, tmp_path, monkeypatch, capsys
):
    # The flags of a script are those of the module named by sys.argv[0].
    monkeypatch.setattr(sys, "argv", [__name__])
    trained_seeds = []

    def run(seed):
        trained_seeds.append(seed)
        return {"eval_f1": seed / 10}

    before = set(bert_tf.cli.flags.FLAGS)
    peer_training.define_flags(num_seeds=2)
    try:
        required = ["--data_dir=a", "--model_dir=b", f"--output_dir={tmp_path}"]

        def compare(seeds, *flags):
            with flagsaver.flagsaver():
                bert_tf.cli.flags.FLAGS([__name__, *required, *flags])
                peer_training.compare(run, run, range(seeds))

        compare(1)
        assert trained_seeds == [0, 0]
        compare(3, "--libraries=bert_tf")
        assert trained_seeds == [0, 0, 1, 2]
        assert "mean 0.1000" in capsys.readouterr().out.split("bert_tf ")[-1]
        with pytest.raises(bert_tf.UserError, match=r"bert_tf\.json has results .*batch_size"):
            compare(3, "--batch_size=4")
    finally:
        for name in set(bert_tf.cli.flags.FLAGS) - before:
            delattr(bert_tf.cli.flags.FLAGS, name)
    assert trained_seeds == [0, 0, 1, 2]

"""What the comparisons with transformers have in common."""

import sys

import pytest
from absl.testing import flagsaver

import bert_tf


@pytest.fixture
def peer_training(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    import peer_training

    return peer_training


def test_results_go_on_by_the_same_flags_only(peer_training, tmp_path, monkeypatch, capsys):
    """As a script that is run: its flags are those of the module sys.argv[0]."""
    monkeypatch.setattr(sys, "argv", [__name__])
    asked = []

    def run(seed):
        asked.append(seed)
        return {"eval_f1": seed / 10}

    before = set(bert_tf.cli.flags.FLAGS)
    peer_training.define_flags(num_seeds=2)
    try:
        given = ["--data_dir=a", "--model_dir=b", f"--output_dir={tmp_path}"]

        def compare(seeds, *flags):
            with flagsaver.flagsaver():
                bert_tf.cli.flags.FLAGS([__name__, *given, *flags])
                peer_training.compare(run, run, range(seeds))

        compare(1)
        assert asked == [0, 0]
        compare(3, "--who=bert_tf")
        assert asked == [0, 0, 1, 2]
        assert "mean 0.1000" in capsys.readouterr().out.split("bert_tf ")[-1]
        with pytest.raises(bert_tf.UserError, match=r"of other flags .batch_size.;"):
            compare(3, "--batch_size=4")
    finally:
        for name in set(bert_tf.cli.flags.FLAGS) - before:
            delattr(bert_tf.cli.flags.FLAGS, name)
    assert asked == [0, 0, 1, 2]

"""The scripts keep the flags and defaults of the 2018 release."""

import pytest

from bert_tf.cli import flags
from tests import scripts_alone

# Flags and defaults in the sources of google-research/bert's five scripts. None means that the flag
# is required or has no default.
DEVICES = {"use_tpu": False, "tpu_name": None, "tpu_zone": None, "gcp_project": None,
           "master": None, "num_tpu_cores": 8}  # fmt: skip
TUNING = {"bert_config_file": None, "vocab_file": None, "output_dir": None,
          "init_checkpoint": None, "do_lower_case": True, "do_train": False, "do_predict": False,
          "train_batch_size": 32, "predict_batch_size": 8, "learning_rate": 5e-5,
          "num_train_epochs": 3.0, "warmup_proportion": 0.1, "save_checkpoints_steps": 1000,
          "iterations_per_loop": 1000, **DEVICES}  # fmt: skip
RELEASE = {
    "run_classifier": {**TUNING, "data_dir": None, "task_name": None, "max_seq_length": 128,
                       "do_eval": False, "eval_batch_size": 8},
    "run_squad": {**TUNING, "train_file": None, "predict_file": None, "max_seq_length": 384,
                  "doc_stride": 128, "max_query_length": 64, "n_best_size": 20,
                  "max_answer_length": 30, "verbose_logging": False,
                  "version_2_with_negative": False, "null_score_diff_threshold": 0.0},
    "run_pretraining": {"bert_config_file": None, "input_file": None, "output_dir": None,
                        "init_checkpoint": None, "max_seq_length": 128,
                        "max_predictions_per_seq": 20, "do_train": False, "do_eval": False,
                        "train_batch_size": 32, "eval_batch_size": 8, "learning_rate": 5e-5,
                        "num_train_steps": 100000, "num_warmup_steps": 10000,
                        "save_checkpoints_steps": 1000, "iterations_per_loop": 1000,
                        "max_eval_steps": 100, **DEVICES},
    "create_pretraining_data": {"input_file": None, "output_file": None, "vocab_file": None,
                                "do_lower_case": True, "do_whole_word_mask": False,
                                "max_seq_length": 128, "max_predictions_per_seq": 20,
                                "random_seed": 12345, "dupe_factor": 10, "masked_lm_prob": 0.15,
                                "short_seq_prob": 0.1},
    "extract_features": {"input_file": None, "output_file": None, "layers": "-1,-2,-3,-4",
                         "bert_config_file": None, "max_seq_length": 128, "init_checkpoint": None,
                         "vocab_file": None, "do_lower_case": True, "batch_size": 32,
                         "use_tpu": False, "master": None, "num_tpu_cores": 8,
                         "use_one_hot_embeddings": False},
}  # fmt: skip


@pytest.mark.parametrize("script", RELEASE)
def test_flags_of_the_release_have_their_names_and_defaults(root, script, monkeypatch):
    monkeypatch.syspath_prepend(str(root))
    with scripts_alone.imported(script) as run:
        here = {flag.name: flag.default for flag in run.flags_of[script]}
    for name, default in RELEASE[script].items():
        found = ",".join(map(str, here[name])) if isinstance(here[name], list) else here[name]
        assert found == default, name
        assert name in flags.RELEASE_FLAGS.split()

"""Make a run of training_helpers.py in a separate process, which is killed or is one worker.

    python tests/training/train_alone.py OUTPUT_DIR '{"steps": 20, "dropout": 0.1, ...}'

Like the scripts, it resumes the run in the folder and exits with the same statuses.
"""

import json
import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))


def main():
    output_dir, options = sys.argv[1], json.loads(sys.argv[2])
    import keras

    import bert_tf
    from bert_tf.data import input_pipeline, records
    from tests import conftest

    bert_tf.console.show()
    strategy = None
    if keras.backend.backend() == "jax":
        bert_tf.training.Engine.make()  # before the first operation
    elif "TF_CONFIG" in os.environ:
        strategy = bert_tf.training.make_strategy()
    else:
        conftest.split_cpu()
    from tests.training import training_helpers

    keras.utils.set_random_seed(7)
    bert_tf.training.loop.SECONDS_PER_LOOP = options.pop("seconds_per_loop", 2.0)
    if paths := options.pop("paths", None):
        options["data"] = input_pipeline.TrainingInput(
            paths, records.PRETRAINING, {"S": 8, "P": 1}, 4, 3
        )
    loop = training_helpers.run(output_dir, strategy=strategy, **options)
    results = loop.evaluate(training_helpers.SomeBatches())
    print(json.dumps(results))


if __name__ == "__main__":
    try:
        main()
    except Exception as error:  # like bert_tf.cli.flags.run, but with a traceback for bugs
        if type(error).__name__ not in ("UserError", "Stopped"):
            raise
        print(error, file=sys.stderr)
        sys.exit(getattr(error, "status", 1))

"""Trains the made-up set of test_training.py in a process of its own: to be killed, or one worker.

    python tests/training/train_alone.py OUTPUT_DIR '{"steps": 20, "dropout": 0.1, ...}'

Like the scripts it goes on where the folder's newest checkpoint stands, and exits with their
statuses.
"""

import json
import os
import re
import signal
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["KERAS_BACKEND"] = "tensorflow"
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def die_before(kind, name, count):
    """Has this process killed before it renames a file to, or removes one of, a name."""
    from bert_tf import files

    function = getattr(files.Local, kind)
    left = [count]

    def counted(*paths, **options):
        if re.fullmatch(name, os.path.basename(paths[-1])):
            left[0] -= 1
            if not left[0]:
                print(f"killed before it {kind}s {paths[-1]}", flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
        return function(*paths, **options)

    setattr(files.Local, kind, staticmethod(counted))


def main():
    output_dir, options = sys.argv[1], json.loads(sys.argv[2])
    import conftest

    import bert_tf
    from bert_tf.data import input_pipeline, records

    bert_tf.console.show()
    strategy = None
    if "TF_CONFIG" in os.environ:
        strategy = bert_tf.training.make_strategy()
    else:
        conftest.pytest_configure()
    import test_training

    if (count := options.pop("replicas", 1)) > 1:
        strategy = test_training.mirrored(count)
    bert_tf.training.set_seed(7)
    bert_tf.training.loop.SECONDS_PER_LOOP = options.pop("seconds_per_loop", 2.0)
    if operation := options.pop("die_before", None):
        die_before(*operation)
    if paths := options.pop("paths", None):
        options["data"] = input_pipeline.TrainingInput(
            paths, records.PRETRAINING, {"S": 8, "P": 1}, 4, 3
        )
    if folder := options.pop("classifier_dir", None):
        test_training.run_classifier(folder, strategy)
        bert_tf.training.set_seed(7)
    trainer = test_training.run(output_dir, strategy=strategy, **options)
    results = trainer.evaluate(test_training.SomeBatches())
    print(json.dumps(results))


if __name__ == "__main__":
    try:
        main()
    except Exception as error:  # as bert_tf.cli.flags.run does it, with the trace of what is a bug
        if type(error).__name__ not in ("UserError", "Stopped"):
            raise
        print(error, file=sys.stderr)
        sys.exit(getattr(error, "status", 1))

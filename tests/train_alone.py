"""Trains the made-up set of test_training.py in a process of its own: to be killed, or one worker.

    python tests/train_alone.py OUTPUT_DIR '{"steps": 20, "task": "pretraining", ...}'

Like the scripts it goes on where the folder's newest checkpoint stands, and exits with their
statuses.
"""

import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["KERAS_BACKEND"] = "tensorflow"
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main():
    output_dir, options = sys.argv[1], json.loads(sys.argv[2])
    import conftest

    import bert_tf

    bert_tf.console.show()
    if "TF_CONFIG" in os.environ:
        strategy = bert_tf.training.make_strategy()
    else:
        conftest.pytest_configure()
        strategy = None
    import test_training

    count = options.pop("replicas", 1)
    if count > 1:
        strategy = test_training.mirrored(count)
    bert_tf.training.set_seed(7)
    slow = options.pop("seconds_per_loop", None)
    if slow is not None:
        bert_tf.training.loop.SECONDS_PER_LOOP = slow
    trainer = test_training.run(output_dir, strategy=strategy, **options)
    results = trainer.evaluate(test_training.SomeBatches())
    print(json.dumps(results))


if __name__ == "__main__":
    try:
        main()
    except Exception as error:  # as bert_tf.flags.run does it, with the trace of what is a bug
        if type(error).__name__ not in ("UserError", "Stopped"):
            raise
        print(error, file=sys.stderr)
        sys.exit(getattr(error, "status", 1))

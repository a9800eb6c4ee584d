"""The names of the tasks that packages below `tasks` know, without TensorFlow."""

# Name of a task in an exported model -> (the file with its configuration, saved next to the
# weights; the script that writes this file; `problem_type` in the config.json of transformers).
EXPORTED_TASKS = {
    "encoder": (None, None, None),
    "sentence_embedding": ("sentence_encoder.json", "run_sentence_encoder.py", None),
    "fill_mask": (None, None, None),
    "classification": ("classifier.json", "run_classifier.py", "single_label_classification"),
    "multi_label": ("classifier.json", "run_classifier.py", "multi_label_classification"),
    "regression": ("classifier.json", "run_classifier.py", "regression"),
    "question_answering": ("squad.json", "run_squad.py", None),
    "token_classification": ("tagger.json", "run_ner.py", None),
    "multiple_choice": ("choice.json", "run_multiple_choice.py", None),
}

# `tasks.registry.register` adds the files of other tasks, with the name of the task.
TASK_CONFIG_FILES = {file: script for file, script, _ in EXPORTED_TASKS.values() if file}
PROBLEM_TYPES = {name: kind for name, (*_, kind) in EXPORTED_TASKS.items() if kind}

"""Old public names that still work for one version, with a warning."""

import importlib
import sys
import warnings

# Task names in models that version 0.1 exported, and in its flag --task.
RENAMED_TASKS = {
    "answers": "question_answering",
    "choice": "multiple_choice",
    "masked_words": "fill_mask",
    "tagging": "token_classification",
    "vectors": "sentence_embedding",
}


def deprecated_names(module, names):
    """Return a `__getattr__` that resolves old names of a module.

    `names` is a dict from each old name to the new one in the module, or "package.module:Name".

    >>> __getattr__ = deprecated_names(__name__, {"BertTagger": "BertTokenClassifier"})
    """

    def resolve(name):
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        target_module, _, target = names[name].rpartition(":")
        target_module = target_module or module
        warnings.warn(
            f"{module}.{name} is deprecated and will be removed in version 0.3; use "
            f"{target_module}.{target}",
            FutureWarning,
            # The line that uses the name, which may be behind a wrapper of this function.
            stacklevel=3 if sys._getframe(1).f_code.co_name == "__getattr__" else 2,
        )
        return getattr(importlib.import_module(target_module), target)

    return resolve

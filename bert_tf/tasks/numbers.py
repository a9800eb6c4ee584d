"""Numbers beside the text: as words of it, or normalised beside the pooled output."""

from typing import NamedTuple

import numpy as np

from bert_tf import console


class Number(NamedTuple):
    """A column of numbers, and their mean and standard deviation in the training set."""

    name: str
    mean: float
    deviation: float


def as_words(names, cells):
    """The numbers as words to stand before a text: "age: 35, price: 2.5. ".

    Before it, because what is cut off a text that is too long is its end.
    """
    words = (f"{name}: {cell.strip()}" for name, cell in zip(names, cells, strict=True))
    return f"{', '.join(words)}. "


def measure(names, examples):
    """The `Number`s of a training set: tuple, one for each name."""
    # In float64: times in seconds since 1970 differ by little of their size.
    values = np.array([example.numbers for example in examples], "float64")
    # The deviation of equal numbers is not always 0 in floating point.
    is_one = values.min(0) == values.max(0)
    means, deviations = values.mean(0), np.where(is_one, 0.0, values.std(0))
    for name, value in zip(names, deviations, strict=True):
        if not value:
            console.warning("`numeric_columns`: %s has but one value in the training set", name)
    return tuple(
        Number(name, float(mean), float(deviation))
        for name, mean, deviation in zip(names, means, deviations, strict=True)
    )


def normalise(values, numbers):
    """Brings numbers to mean 0 and deviation 1 over the training set.

    Args:
      values: F numbers, or an array or tensor (..., F) of float64. float32 would not do for times
        in seconds since 1970.
      numbers: F `Number`s; one without deviation is only shifted.

    Returns:
      Array or tensor of float64.
    """
    means = np.array([number.mean for number in numbers])
    scales = np.array([number.deviation or 1.0 for number in numbers])
    return (values - means) / scales

"""Compares masks with the true ones. Needs only NumPy."""

from typing import NamedTuple

import numpy

CLASS_NAMES = ("background", "thing")


class Fit(NamedTuple):
    by_class: tuple  # intersection over union of all pixels of all images, per class
    worst: float  # lowest mean of a single image

    @property
    def mean(self):
        return sum(self.by_class) / len(self.by_class)

    def describe(self):
        classes = ", ".join(f"{name} {value:.3f}" for name, value in zip(CLASS_NAMES, self.by_class))
        return f"mean IoU {self.mean:.3f} ({classes}; the worst image {self.worst:.3f})"


def mean_iou(pairs, classes=2):
    """`pairs`: (found, true) masks of class numbers, both of one shape. A class in neither mask counts as found."""
    both, either, worst = numpy.zeros(classes), numpy.zeros(classes), 1.0
    for found, true in pairs:
        of_both = numpy.array([numpy.sum((found == number) & (true == number)) for number in range(classes)], float)
        of_either = numpy.array([numpy.sum((found == number) | (true == number)) for number in range(classes)], float)
        worst = min(worst, float(numpy.mean(share(of_both, of_either))))
        both += of_both
        either += of_either
    return Fit(tuple(share(both, either).tolist()), worst)


def share(part, whole):
    return numpy.where(whole > 0, part / numpy.maximum(whole, 1), 1.0)

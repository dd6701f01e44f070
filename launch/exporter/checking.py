"""Compares the outputs of a compiled model with those of its network."""

import dataclasses
import itertools

import torch

from exporter.compiling import SHORTEST, check_is_batch, flattened, size_range, takes_any_length
from model_package.loading import load
from offramp_launch.exit_code import ExitCode, LaunchError

SEEDS = (1, 2)


@dataclasses.dataclass(frozen=True)
class Difference:
    largest: float  # as a share of the output's largest value
    absolute: float
    output_names: tuple
    batches: tuple  # compared batch sizes
    any_length: bool  # shorter rows of tokens were compared too

    def describe(self):
        return (
            f"{self.absolute:.3g}, {self.largest:.2g} of the largest value, over batches of {' and '.join(map(str, self.batches))}{' and rows of any length' if self.any_length else ''} "
            f"(outputs: {', '.join(self.output_names)})"
        )


def compare(file, module, plan):
    compiled = load(file)
    batches = (plan.batch,) if plan.batch else batches_within(size_range(file, 0), plan.example_batch)
    any_length = takes_any_length(file, plan)
    lengths = (None, SHORTEST, (SHORTEST + plan.longest) // 2) if any_length else (None,)
    largest = absolute = 0.0
    names = ()
    for seed in SEEDS:
        for batch, length in itertools.product(batches, lengths):
            given, named = plan.arguments(batch, seed, length)
            with torch.no_grad():
                expected, names = flattened(module(*given, **named))
                found, _ = flattened(compiled(*given, **named))
            if len(expected) != len(found):
                raise LaunchError(
                    f"the network has {len(expected)} outputs, the compiled model {len(found)}", "", ExitCode.INTERNAL
                )
            for name, one, other in zip(names, expected, found):
                check_is_batch(name, one, batch)
                share, most = difference(one, other)
                largest, absolute = max(largest, share), max(absolute, most)
    return Difference(largest, absolute, names, batches, any_length)


def batches_within(limits, example):
    least, most = limits
    return tuple(sorted({max(least, 1), min(example, most or example)}))


def difference(expected, found):
    """(relative to the largest value, absolute). Infinite if only one of them has a NaN or infinity at some place."""
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return float("inf"), float("inf")
    if not expected.is_floating_point():
        return (expected != found).double().mean().item(), float((expected.long() - found.long()).abs().max())
    one, other = expected.double(), found.double()
    if not torch.equal(one.isfinite(), other.isfinite()):
        return float("inf"), float("inf")
    one, other = one.nan_to_num(0, 0, 0), other.nan_to_num(0, 0, 0)
    most = (one - other).abs().max().item()
    scale = one.abs().max().item()
    return (most / scale if scale > 0 else most), most

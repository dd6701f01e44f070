"""Whether a compiled model gives what its network gives."""

import dataclasses
import itertools

import torch

from exporter.compiling import SHORTEST, batch_range, check_is_batch, flattened, takes_any_length
from model_package.loading import load
from offramp_launch.exit_code import ExitCode, LaunchError

SEEDS = (1, 2)


@dataclasses.dataclass(frozen=True)
class Difference:
    largest: float          # as a share of the output's largest value
    absolute: float
    output_names: tuple
    batches: tuple          # that were tried
    any_length: bool        # shorter rows of tokens were tried as well

    def told(self):
        return (f"{self.absolute:.3g}, {self.largest:.2g} of the largest value, over batches of {' and '.join(map(str, self.batches))}{' and rows of any length' if self.any_length else ''} "
                f"(outputs: {', '.join(self.output_names)})")


def compare(file, module, plan):
    compiled = load(file)
    batches = (plan.batch,) if plan.batch else batches_within(batch_range(file), plan.example_batch)
    any_length = takes_any_length(file, plan)
    lengths = (None, SHORTEST, (SHORTEST + plan.longest) // 2) if any_length else (None,)
    largest = absolute = 0.0
    names = ()
    for seed in SEEDS:
        for batch, length in itertools.product(batches, lengths):
            given, named = plan.arguments(batch, seed, length)
            with torch.no_grad():
                wanted, names = flattened(module(*given, **named))
                found, _ = flattened(compiled(*given, **named))
            if len(wanted) != len(found):
                raise LaunchError(f"the network gives {len(wanted)} outputs, the compiled model {len(found)}", "", ExitCode.INTERNAL)
            for name, one, other in zip(names, wanted, found):
                check_is_batch(name, one, batch)
                share, most = difference(one, other)
                largest, absolute = max(largest, share), max(absolute, most)
    return Difference(largest, absolute, names, batches, any_length)


def batches_within(limits, example):
    least, most = limits
    return tuple(sorted({max(least, 1), min(example, most or example)}))


def difference(wanted, found):
    """(as a share of the largest value, absolute); not a number anywhere in one of them alone counts as infinite."""
    if wanted.shape != found.shape or wanted.dtype != found.dtype:
        return float("inf"), float("inf")
    if not wanted.is_floating_point():
        return (wanted != found).double().mean().item(), float((wanted.long() - found.long()).abs().max())
    one, other = wanted.double(), found.double()
    if not torch.equal(one.isfinite(), other.isfinite()):
        return float("inf"), float("inf")
    one, other = one.nan_to_num(0, 0, 0), other.nan_to_num(0, 0, 0)
    most = (one - other).abs().max().item()
    scale = one.abs().max().item()
    return (most / scale if scale > 0 else most), most

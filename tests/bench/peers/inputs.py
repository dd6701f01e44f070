"""
Ways in which a peer's input reaches the device. Batches are made once and reused, so that making them is not measured.
"""

import torch

WAYS = ("device", "host", "pageable-blocking", "pageable-async")


def make_feed(way, shape, device):
    """`take()` returns the next input; the caller calls `used()` once the input's readers are submitted."""
    if shape is None:
        return Resident(None)
    if way == "device" or device.type == "cpu":
        return Resident(torch.randn(shape, device=device))
    if way == "host":
        return Prefetch(shape, device)
    return Pageable(shape, device, blocking=way == "pageable-blocking")


class Resident:
    """The batch is on the device."""

    def __init__(self, batch):
        self._batch = batch

    def take(self):
        return self._batch

    def used(self):
        pass


class Pageable:
    """Ordinary memory, copied on the compute stream before the model."""

    def __init__(self, shape, device, blocking):
        self._host = torch.randn(shape)
        self._device = device
        self._blocking = blocking

    def take(self):
        return self._host.to(self._device, non_blocking=not self._blocking)

    def used(self):
        pass


class Prefetch:
    """Page-locked memory, copied on a separate stream up to two batches ahead of the model."""

    def __init__(self, shape, device):
        self._host = [torch.randn(shape).pin_memory() for _ in range(2)]
        self._inputs = [torch.empty(shape, device=device) for _ in range(2)]
        self._uploaded = [torch.cuda.Event() for _ in range(2)]
        self._used = [torch.cuda.Event() for _ in range(2)]
        self._stream = torch.cuda.Stream()
        self._slot = 0
        torch.cuda.synchronize()
        for slot in range(2):
            self._upload(slot)

    def _upload(self, slot):
        with torch.cuda.stream(self._stream):
            self._inputs[slot].copy_(self._host[slot], non_blocking=True)
            self._uploaded[slot].record(self._stream)

    def take(self):
        torch.cuda.current_stream().wait_event(self._uploaded[self._slot])
        return self._inputs[self._slot]

    def used(self):
        slot = self._slot
        self._used[slot].record(torch.cuda.current_stream())
        self._stream.wait_event(self._used[slot])
        self._upload(slot)
        self._slot = 1 - slot

"""A custom processor in Python, for tests; its results equal those of own_processor.c."""


def save(slab):
    first = slab.tensors[0].name
    for sample in slab.samples:
        total = sum(slab[first][sample.row].tobytes())
        yield sample, ".sum", f"{total}\n".encode()
        yield sample, {"sum": total}

"""The time of a kernel launch without the host's share: launches replayed inside a CUDA graph."""

import statistics
from collections.abc import Callable, Iterable

import torch


def microseconds(launch: Callable, sets: Iterable[tuple], replays: int) -> float:
    """Median microseconds of one launch, over `replays` replays of a graph of launches.

    sets: the arguments of each launch of the graph; the first one is also launched before, which
    compiles. Needs a GPU.
    """
    sets = list(sets)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        launch(*sets[0])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for each in sets:
            launch(*each)
    for _ in range(2):
        graph.replay()
    samples = []
    for _ in range(replays):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        samples.append(start.elapsed_time(end) * 1000 / len(sets))
    return statistics.median(samples)

"""What one call of Y = relu(A B + bias) costs, by size: this library's ways beside torch's.

Two numbers for each way: microseconds of host time to enqueue a call, and microseconds of GPU time
that it takes once enqueued. The GPU is kept busy while a batch of calls is enqueued, so that
neither number holds any of the other. Without a GPU or torch: what can be shown, on the host.
"""

import argparse
import statistics
import time

import numpy as np

import graph_executor_v2 as ge
from graph_executor_v2.ops import _ops_gemm as gemm

SIZES = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
HOST_SIZES = (8, 16, 32, 64, 128)
CALLS = 40  # in a batch: few enough never to fill the GPU's queue
FADED = 1.1  # the direct path's advantage over torch has faded below this


def operands(m, size):
    generator = np.random.default_rng(size)
    a, b, bias = (generator.standard_normal(s, dtype=np.float32) for s in ((m, size), (size, size), (size,)))
    return a, b, bias, np.empty((m, size), np.float32)


def capture(a, b, bias, y):
    program = ge.Program()
    program.forward(a, b, bias, y, act="relu")
    return ge.capture(program, tuning_budget_s=0.3)


def median_us(call, rounds):
    """Host microseconds of a call that is done when it returns."""
    for _ in range(3):
        call()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e6 * statistics.median(times)


def ways_on_gpu(torch, m, size):
    """name -> a function that enqueues one call on torch's current stream."""
    stream = torch.cuda.current_stream()
    a, b, bias, y = (torch.from_numpy(array).cuda() for array in operands(m, size))
    attrs = gemm.GemmAttrs(act=gemm.ActKind.ReLU)
    handle = stream.cuda_stream
    ta, tb, tbias, ty = (ge.as_tensor(t) for t in (a, b, bias, y))
    executable = capture(a, b, bias, y)

    def eager():
        return torch.relu(torch.addmm(bias, a, b))

    for _ in range(3):
        eager()  # torch wants a warm-up before a capture
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        eager()
    return {
        "direct": lambda: gemm.forward(ta, tb, tbias, ty, attrs, handle),
        "direct/torch": lambda: gemm.forward(a, b, bias, y, attrs, handle),
        "replay": lambda: executable.launch(handle),
        "torch": eager,
        "torch graph": graph.replay,
    }


def measure_on_gpu(torch, call, rounds):
    """(host, device) microseconds of a call: medians over batches that a busy GPU holds back."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def batch(hold_cycles):
        torch.cuda.synchronize()
        torch.cuda._sleep(hold_cycles)
        begin.record()
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        host = time.perf_counter() - start
        end.record()
        torch.cuda.synchronize()
        return 1e6 * host / CALLS, 1e3 * begin.elapsed_time(end) / CALLS

    for _ in range(3):
        host, _ = batch(1000)
    hold = int(2 * host * CALLS * 2000) + 200_000  # twice as long as it takes to enqueue, at 2 GHz
    results = [batch(hold) for _ in range(rounds)]
    return tuple(statistics.median(column) for column in zip(*results))


def fading(sizes, rows):
    """One sentence from {size: {way: (host, device)}}: where torch is within FADED of the direct path."""
    ratio = {s: max(rows[s]["torch"]) / max(rows[s]["direct/torch"]) for s in sizes}
    faded = [s for i, s in enumerate(sizes) if all(ratio[t] < FADED for t in sizes[i:])]
    best = max(sizes, key=ratio.get)
    text = f"a direct call on torch tensors is up to {ratio[best]:.1f} times as quick as torch's (at {best})"
    if not faded:
        return f"{text}, and still {ratio[sizes[-1]]:.2f} times at {sizes[-1]}."
    host, device = rows[faded[0]]["direct/torch"]
    why = ": there both wait for the GPU" if device > host else ""
    return f"{text}; from {faded[0]} on less than {FADED} times{why}."


def gpu_tables(torch, sizes, rounds):
    torch.cuda.set_stream(torch.cuda.Stream())
    for batch in (16, None):
        print(f"\n[{batch or 'size'},size] x [size,size], microseconds a call: host | GPU")
        rows = {}
        for size in sizes:
            with torch.no_grad():
                ways = ways_on_gpu(torch, batch or size, size)
                rows[size] = {name: measure_on_gpu(torch, call, rounds) for name, call in ways.items()}
            if size == sizes[0]:
                print(" size" + "".join(f"{name:>19}" for name in (*ways, "numpy, all")))
            a, b, bias, _ = operands(batch or size, size)
            whole = median_us(lambda: gemm.forward_numpy(a, b, bias, "relu"), max(3, rounds // 3))
            cells = "".join(f"{host:10.2f} |{device:7.1f}" for host, device in rows[size].values())
            print(f"{size:5}{cells}{whole:19.1f}", flush=True)
        print(f"With {batch or 'as many'} rows " + fading(sizes, rows))


def host_table(sizes, rounds):
    print("\n[16,size] x [size,size] on the host (a reference, not an optimised BLAS), microseconds a call")
    print(" size  forward_numpy        direct        replay         NumPy")
    for size in sizes:
        a, b, bias, y = operands(16, size)
        attrs = gemm.GemmAttrs(act=gemm.ActKind.ReLU)
        executable = capture(a, b, bias, y)
        calls = (
            lambda: gemm.forward_numpy(a, b, bias, "relu", device=gemm.Device.CPU),
            lambda: gemm.forward(a, b, bias, y, attrs, None),
            executable.launch,
            lambda: np.maximum(a @ b + bias, 0),
        )
        print(f"{size:5}" + "".join(f"{median_us(call, rounds):14.1f}" for call in calls))


def sizes(text):
    return tuple(int(part) for part in text.split(","))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=sizes, help="for example 8,64,512")
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds is {options.rounds}, expected at least 1")
    missing = []
    try:
        import torch

        if not torch.cuda.is_available():
            missing.append("PyTorch finds no GPU")
    except ImportError:
        missing.append("PyTorch is not installed")
    try:
        ge.target_available("cuda")
    except ge.GemmError as error:
        missing.append(str(error))
    if missing:
        print("not compared with torch on a GPU: " + "; ".join(missing))
        host_table(options.sizes or HOST_SIZES, options.rounds)
    else:
        print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
        gpu_tables(torch, options.sizes or SIZES, options.rounds)


if __name__ == "__main__":
    main()

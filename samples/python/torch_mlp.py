"""Trains the digits network of samples/digits by replaying one captured graph for each step.

On a GPU the buffers are torch tensors; on the host they are torch's too, or NumPy's where torch is
not installed. The loss and the update are plain array operations that both libraries spell alike:
with `out=` and in place, since a captured step must not allocate.
"""

import argparse
import math
import pathlib
import sys

import numpy as np

import graph_executor_v2 as ge

PIXELS, CLASSES, BATCH = 64, 10, 64
WIDTHS = (PIXELS, 128, 64, CLASSES)
TEST_COUNT, SPLIT_SEED = 450, 2026
RATE, BETA1, BETA2, EPSILON = 2e-3, 0.9, 0.999, 1e-8
DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "digits.csv"


class Arrays:
    """Where the numbers live: torch on a GPU, or torch or NumPy on the host."""

    def __init__(self, target, library):
        self.lib, self.torch = library, library.__name__ == "torch"
        self.where = {"device": "cuda" if target == "cuda" else "cpu"} if self.torch else {}

    def zeros(self, *shape):
        return self.lib.zeros(shape, dtype=self.lib.float32, **self.where)

    def upload(self, array):
        return self.lib.asarray(array.astype(np.float32), **self.where)

    def download(self, array):
        return array.cpu().numpy() if self.torch else array

    def step(self, fn):
        """fn(reads, writes) over arrays as a function for Program.step."""
        if self.torch:
            from graph_executor_v2 import torch as ge_torch

            return ge_torch.step(fn)
        return lambda stream, reads, writes: fn([t.numpy() for t in reads], [t.numpy() for t in writes])


def cross_entropy(lib):
    def step(reads, writes):
        """gradient = (softmax(logits) - targets) / batch; total += the batch's mean loss."""
        logits, targets, _ = reads
        gradient, total, shifted, row, row2, mean = writes
        lib.amax(logits, axis=1, keepdims=True, out=row)
        lib.subtract(logits, row, out=shifted)
        lib.exp(shifted, out=gradient)
        lib.sum(gradient, axis=1, keepdims=True, out=row)
        gradient /= row
        gradient -= targets
        gradient /= BATCH
        lib.log(row, out=row)
        shifted *= targets
        lib.sum(shifted, axis=1, keepdims=True, out=row2)
        row -= row2
        lib.sum(row, axis=0, out=mean)
        mean /= BATCH
        total += mean

    return step


def adam(lib):
    def step(reads, writes):
        """Adam; correction = 1 - beta^t, kept as a running value since t changes at each replay."""
        g = reads[0]
        weights, m, v, correction1, correction2, scratch = writes
        correction1 *= BETA1
        correction1 += 1 - BETA1
        correction2 *= BETA2
        correction2 += 1 - BETA2
        m *= BETA1
        lib.multiply(g, 1 - BETA1, out=scratch)
        m += scratch
        v *= BETA2
        lib.multiply(g, g, out=scratch)
        scratch *= 1 - BETA2
        v += scratch
        lib.divide(v, correction2, out=scratch)
        lib.sqrt(scratch, out=scratch)
        scratch += EPSILON
        lib.divide(m, scratch, out=scratch)
        scratch /= correction1
        scratch *= RATE
        weights -= scratch

    return step


class Network:
    """64-128-64-10 with ReLU: one flat buffer of parameters, a captured training step, and a
    captured inference pass that shares it."""

    def __init__(self, arrays):
        self.arrays = arrays
        shapes = [s for i, o in zip(WIDTHS, WIDTHS[1:]) for s in ((i, o), (o,))]
        self.sizes = [math.prod(s) for s in shapes]
        ends = np.cumsum(self.sizes)

        def slices(flat):
            views = [flat[int(end) - n : int(end)].reshape(s) for s, n, end in zip(shapes, self.sizes, ends)]
            return views[0::2], views[1::2]  # weights, biases

        new, count = arrays.zeros, sum(self.sizes)
        self.parameters, gradients, self.m, self.v = (new(count) for _ in range(4))
        self.corrections, self.loss, self.targets = (new(1), new(1)), new(1), new(BATCH, CLASSES)
        weights, biases = slices(self.parameters)
        gweights, gbiases = slices(gradients)

        training = ge.mlp(
            weights,
            biases,
            "relu",
            BATCH,
            training=True,
            gweights=gweights,
            gbiases=gbiases,
            loss=arrays.step(cross_entropy(arrays.lib)),
            loss_reads=[self.targets, self.loss],
            loss_writes=[self.loss, new(BATCH, CLASSES), new(BATCH, 1), new(BATCH, 1), new(1)],
        )
        state = [self.parameters, self.m, self.v, *self.corrections]
        training.program.step(
            "adam", [gradients, *state], [*state, new(count)], arrays.step(adam(arrays.lib))
        )
        self.images, self.train = training.x, training.capture()
        inference = ge.mlp(weights, biases, "relu", BATCH)
        self.x, self.y, self.infer = inference.x, inference.y, inference.capture()

    def initialise(self, seed):
        """Uniform He initialisation, zero biases, fresh optimiser."""
        generator = np.random.default_rng(seed)
        values = []
        for rows, columns in zip(WIDTHS, WIDTHS[1:]):
            limit = math.sqrt(6 / rows)
            values += [generator.uniform(-limit, limit, rows * columns), np.zeros(columns)]
        self.parameters[:] = self.arrays.upload(np.concatenate(values))
        for buffer in (self.m, self.v, *self.corrections):
            buffer[:] = 0

    def fit(self, images, targets, seed, epochs, stream):
        """The mean loss of each epoch. The last, incomplete batch of an epoch is left out."""
        self.initialise(seed)
        generator = np.random.default_rng(seed + 1000)
        batches, losses = len(images) // BATCH, []
        for _ in range(epochs):
            order = generator.permutation(len(images))[: batches * BATCH].reshape(batches, BATCH)
            x, t = self.arrays.upload(images[order]), self.arrays.upload(targets[order])
            self.loss[:] = 0
            for batch in range(batches):
                self.images[:], self.targets[:] = x[batch], t[batch]
                self.train.launch(stream)
            losses.append(float(self.loss[0]) / batches)
        return losses

    def accuracy(self, images, labels, stream):
        right = 0
        for first in range(0, len(images), BATCH):
            part = images[first : first + BATCH]
            self.x[: len(part)] = self.arrays.upload(part)
            self.infer.launch(stream)
            right += np.sum(
                self.arrays.download(self.y)[: len(part)].argmax(1) == labels[first : first + BATCH]
            )
        return right / len(images)


def choose(target):
    """The target to use, and torch or NumPy."""
    try:
        import torch
    except ImportError:
        torch, why = None, "PyTorch is not installed"
    if target != "host" and torch is not None:
        try:
            ge.target_available("cuda")
            return "cuda", torch
        except ge.GemmError as error:
            why = str(error)
    if target == "cuda":
        sys.exit(f"torch_mlp: no GPU to use ({why})")
    if target == "auto":
        print(f"no GPU to use ({why}): running on the host")
    return "host", torch or np


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", "--device", choices=("auto", "host", "cpu", "cuda"), default="auto")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=60)
    options = parser.parse_args()

    table = np.loadtxt(DATA, delimiter=",", dtype=np.int64)
    table = table[np.random.default_rng(SPLIT_SEED).permutation(len(table))]
    images, labels = table[:, :PIXELS] / 16, table[:, PIXELS]
    images, test_images = images[:-TEST_COUNT], images[-TEST_COUNT:]
    labels, test_labels = labels[:-TEST_COUNT], labels[-TEST_COUNT:]
    targets = np.eye(CLASSES)[labels]

    target, library = choose("host" if options.target == "cpu" else options.target)
    print(
        f"target {target}, buffers of {library.__name__}; 64-128-64-10 ReLU; "
        f"{len(images)} images to train on, {len(test_images)} to test with"
    )
    stream = None
    if target == "cuda":
        stream = library.cuda.Stream()
        library.cuda.set_stream(stream)  # torch's copies and our launches in one order
    network = Network(Arrays(target, library))
    step = network.train
    print(f"one training step: {len(step.nodes())} nodes, {step.workspace_bytes} bytes of workspace")
    results = []
    for seed in range(1, options.seeds + 1):
        losses = network.fit(images, targets, seed, options.epochs, stream)
        results.append(network.accuracy(test_images, test_labels, stream))
        print(f"seed {seed}: loss {losses[0]:.4f} -> {losses[-1]:.4f}, test accuracy {results[-1]:.4f}")
    print(f"accuracy {np.mean(results):.3f}")


if __name__ == "__main__":
    main()

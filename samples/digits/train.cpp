#include "train.hpp"

#include <algorithm>
#include <numeric>
#include <random>

namespace digits {

namespace {

std::size_t rows_of(int batches) {
  return static_cast<std::size_t>(batches) * kBatch;
}

}  // namespace

Epoch::Epoch(Memory& memory, int examples)
    : batches(examples / kBatch),
      images(memory.allocate(rows_of(batches) * kPixels)),
      targets(memory.allocate(rows_of(batches) * kClasses)) {}

ai::Result<std::vector<float>> train(Memory& memory, Network& network, ai::Executable& step,
                                     const Epoch& epoch, const Examples& examples,
                                     const TrainOptions& options) {
  AI_RETURN_IF_ERROR(memory.status());
  const std::size_t rows = rows_of(epoch.batches);
  network.initialise(options.seed);
  std::mt19937 generator(options.seed + 1000);
  std::vector<int> order(static_cast<std::size_t>(examples.count()));
  std::iota(order.begin(), order.end(), 0);
  std::vector<float> losses;
  for (int turn = 1; turn <= options.epochs; ++turn) {
    std::shuffle(order.begin(), order.end(), generator);
    const Examples shuffled =
        select(examples, {order.begin(), order.begin() + static_cast<std::ptrdiff_t>(rows)});
    memory.upload(epoch.images, shuffled.images);
    memory.upload(epoch.targets, shuffled.targets);
    memory.zero(network.loss(), 1);
    for (int batch = 0; batch < epoch.batches; ++batch) {
      memory.copy(network.train_images(), epoch.images + batch * kBatch * kPixels,
                  kBatch * kPixels);
      memory.copy(network.train_targets(), epoch.targets + batch * kBatch * kClasses,
                  kBatch * kClasses);
      AI_RETURN_IF_ERROR(memory.status());
      AI_RETURN_IF_ERROR(step.launch(memory.stream()));
    }
    const float loss = memory.download(network.loss(), 1)[0] / static_cast<float>(epoch.batches);
    AI_RETURN_IF_ERROR(memory.status());
    losses.push_back(loss);
    if (options.on_epoch) options.on_epoch(turn, loss);
  }
  return losses;
}

ai::Result<double> accuracy(Memory& memory, Network::Inference& inference,
                            const Examples& examples) {
  int right = 0;
  for (int first = 0; first < examples.count(); first += inference.batch) {
    const int count = std::min(inference.batch, examples.count() - first);
    const auto begin = examples.images.begin() + static_cast<std::ptrdiff_t>(first) * kPixels;
    memory.upload(inference.images, {begin, begin + static_cast<std::ptrdiff_t>(count) * kPixels});
    AI_RETURN_IF_ERROR(memory.status());
    AI_RETURN_IF_ERROR(inference.executable.launch(memory.stream()));
    const std::vector<float> logits =
        memory.download(inference.logits, static_cast<std::size_t>(count * kClasses));
    AI_RETURN_IF_ERROR(memory.status());
    for (int i = 0; i < count; ++i) {
      const auto row = logits.begin() + static_cast<std::ptrdiff_t>(i) * kClasses;
      const auto guess = std::max_element(row, row + kClasses) - row;
      if (guess == examples.labels[static_cast<std::size_t>(first + i)]) ++right;
    }
  }
  return static_cast<double>(right) / examples.count();
}

}  // namespace digits

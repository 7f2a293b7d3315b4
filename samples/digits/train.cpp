#include "train.hpp"

#include <algorithm>
#include <numeric>
#include <random>

namespace digits {

ai::Result<std::vector<float>> train(Memory& memory, Network& network, ai::Executable& step,
                                     const Examples& examples, const TrainOptions& options) {
  const int batches = examples.count() / kBatch;
  const auto rows = static_cast<std::size_t>(batches * kBatch);
  float* images = memory.allocate(rows * kPixels);
  float* targets = memory.allocate(rows * kClasses);

  network.initialise(options.seed);
  std::mt19937 generator(options.seed + 1000);
  std::vector<int> order(static_cast<std::size_t>(examples.count()));
  std::iota(order.begin(), order.end(), 0);
  std::vector<float> losses;
  for (int epoch = 1; epoch <= options.epochs; ++epoch) {
    std::shuffle(order.begin(), order.end(), generator);
    const Examples shuffled =
        select(examples, {order.begin(), order.begin() + static_cast<std::ptrdiff_t>(rows)});
    memory.upload(images, shuffled.images);
    memory.upload(targets, shuffled.targets);
    memory.zero(network.loss(), 1);
    for (int batch = 0; batch < batches; ++batch) {
      memory.copy(network.train_images(), images + batch * kBatch * kPixels, kBatch * kPixels);
      memory.copy(network.train_targets(), targets + batch * kBatch * kClasses, kBatch * kClasses);
      AI_RETURN_IF_ERROR(memory.status());
      AI_RETURN_IF_ERROR(step.launch(memory.stream()));
    }
    const float loss = memory.download(network.loss(), 1)[0] / static_cast<float>(batches);
    AI_RETURN_IF_ERROR(memory.status());
    losses.push_back(loss);
    if (options.on_epoch) options.on_epoch(epoch, loss);
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

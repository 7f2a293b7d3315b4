#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

namespace gpu {

/// Does something again and again on a thread of its own, until it is stopped.
class Bystander {
 public:
  explicit Bystander(std::function<bool()> turn)
      : thread_([this, turn = std::move(turn)] {
          while (!stop_) {
            if (!turn()) ++errors_;
            ++turns_;
          }
        }) {}
  ~Bystander() { stop(); }
  Bystander(const Bystander&) = delete;
  Bystander& operator=(const Bystander&) = delete;

  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  [[nodiscard]] int turns() const { return turns_; }
  [[nodiscard]] int errors() const { return errors_; }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<int> turns_{0};
  std::atomic<int> errors_{0};
  std::thread thread_;
};

}  // namespace gpu

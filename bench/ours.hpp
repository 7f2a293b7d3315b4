#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "ai/ai.hpp"
#include "contestant.hpp"
#include "starts.hpp"

namespace bench {

/// For tuning, where nobody asks for another: what every user of the library gets.
inline const double kBudgetSeconds = ai::CaptureOptions().tuning_budget_s;

/// A row as a user of the library writes it: one program, captured. Hidden values stay visible in
/// buffers, as the peers' do.
class Ours : public Contestant {
 public:
  /// `network` outlives it. Throws Failed with the library's Status. `budget_s` is the tuning
  /// budget.
  Ours(Network& network, double budget_s);
  ~Ours() override;

  void launch(cudaStream_t stream) override;
  void launch_many(cudaStream_t stream) override;
  [[nodiscard]] Network& network() override { return network_; }
  [[nodiscard]] int nodes() const override;
  [[nodiscard]] std::size_t workspace_bytes() const override;
  [[nodiscard]] std::string variant() const override;
  [[nodiscard]] bool writes_z() const override { return true; }

  [[nodiscard]] const Starts& starts() const { return starts_; }
  [[nodiscard]] const std::string& explain() const { return once_->explain(); }

 private:
  [[nodiscard]] ai::Executable capture(int copies, const std::string& file) const;

  Network& network_;
  double budget_s_;
  std::filesystem::path folder_;  // of this row's tuning files
  std::optional<ai::Executable> once_;
  std::optional<ai::Executable> many_;  // empty until it is asked for
  Starts starts_;
};

/// Plans and captures a small program, so that the libraries are loaded and their context is there.
void load_libraries();

}  // namespace bench

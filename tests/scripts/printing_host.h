#pragma once
#include <filesystem>
#include <string>

#include "script/host.h"

namespace optrush::testing {
/// Prints the expanded experiment instead of running it: one line for each variant.
class PrintingHost final : public ScriptHost {
 public:
  std::filesystem::path run(const Experiment&) override;
  void report(const std::filesystem::path& folder) override;
  int64_t ranks(bool) override { return 8; }
  /// Predicts a byte for each token of a micro-batch, and nothing for a rung with LoRA.
  std::optional<int64_t> predicted_peak(const RunSpec&) override;
};

/// "ladder 2 'bf16' over 1: +mixed_precision {"dtype":"bf16"} | train {"steps":3} (x.lua:4)".
std::string line_of(const Variant&);
}  // namespace optrush::testing

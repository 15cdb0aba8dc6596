#pragma once
#include <optional>
#include <string>
#include <vector>

#include "spec/record.h"

namespace optrush {
/// A stack that a search measured beside the reference of a stage, or left out.
struct TriedStack {
  std::string stack;            ///< "bf16 + fused AdamW"
  std::string change;           ///< difference from the reference: "+ bf16, - checkpointing"
  std::optional<double> speed;  ///< tokens/s relative to the reference; none: left out, or it does not count
  int64_t rounds = 0;
  bool faster = false;  ///< certainly faster than the reference
  std::string result;   ///< text for readers: "1.21x [1.18, 1.24], faster", or why there is no speed
};

struct TriedStage {
  std::string reference;
  std::vector<TriedStack> stacks;
};

/// Everything that a search considered (tried.json).
struct Tried {
  int64_t schema_version = 1;
  std::string best;                 ///< the stack that it found; "base": none is faster
  bool finished = false;            ///< false: the time ended while moves were left
  bool answered = true;             ///< false: the time ended before anything could be claimed
  std::optional<double> decides_s;  ///< additional seconds that a search without an answer needs
  std::vector<TriedStage> stages;
};

Record<Tried> record_of(const Tried*);
}  // namespace optrush

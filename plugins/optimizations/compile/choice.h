#pragma once
#include <filesystem>
#include <optional>

#include "compiled_unit.h"
#include "optrush/run.h"
#include "optrush/unit.h"

namespace optrush::compile {
/// Time of a unit's forward and backward: medians of several, in seconds.
struct Choice {
  double compiled = 0, eager = 0;
  bool takes_compiled() const { return compiled < eager; }
};

/// Times both forms alternately on this call's input. Parameters and their gradients stay as they are.
Choice measure(const CompiledUnit&, const UnitFunction& eager, const Unit&, const Tensor& x, const Batch&);

/// The choice of the first rank that has this unit, on all its ranks; none if that rank has none.
std::optional<Choice> of_first_rank(const std::optional<Choice>& mine, Run&);

/// None if the file does not exist.
std::optional<Choice> read_choice(const std::filesystem::path&);
void write_choice(const std::filesystem::path&, const Choice&);
}  // namespace optrush::compile

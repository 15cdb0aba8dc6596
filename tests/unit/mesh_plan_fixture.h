// Training problems that tests of mesh plans share.
#pragma once
#include <string>

#include "mesh_plan/mesh_plan.h"
#include "spec/presets.h"

namespace optrush::mesh_plan {
inline TrainingProblem problem_of(const std::string& model, int64_t batch = 64) {
  return {.model = llama_preset(model), .global_batch = batch};
}

inline LlamaSpec mixtral_8x7b() {
  LlamaSpec spec = llama_preset("mistral-7b");
  spec.window = 0;
  spec.n_experts = 8;
  return spec;
}
}  // namespace optrush::mesh_plan

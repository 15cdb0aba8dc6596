#pragma once
#include <optional>
#include <string>

#include "script/context.h"
#include "script/lua_value.h"

namespace optrush {
/// Whether the runs of a script train on a GPU: if there is one, unless --device states otherwise.
bool on_gpu(const ScriptContext&);

/// The memory limit for a step of one rank in bytes: `memory` in `options`, otherwise 90 % of the GPU's
/// memory or, on a CPU, 70 % of the free memory divided by `ranks`. Otherwise an Error that names `who`.
double memory_limit(const LuaTable& options, ScriptContext&, const std::string& who, int64_t ranks);

/// The limits of the search for a micro-batch.
struct BatchLimits {
  double memory_bytes = 0;
  int64_t most = 1;     ///< largest number of sequences
  int64_t divides = 0;  ///< the micro-batch must divide this number of sequences; 0: any
  bool trial = false;   ///< confirm the forecast by a run of two steps
};

/// The largest power of two that fits as micro-batch of this spec. With `divides`, accumulation provides the
/// rest of the step. 0: not even one sequence fits. None if it can't be predicted and there is no trial.
std::optional<int64_t> largest_micro_batch(RunSpec, const BatchLimits&, ScriptContext&);

/// Sets for each rung of a ladder the largest micro-batch that its stack can hold, with the base's sequences
/// per step. External rungs get the one of the rungs below. An Error names a rung without a solution.
void fill_memory(Part& ladder, const Experiment&, BatchLimits, ScriptContext&);
}  // namespace optrush

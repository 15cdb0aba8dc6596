#pragma once
#include <optional>
#include <string>

#include "script/context.h"
#include "script/lua_value.h"

namespace optrush {
/// Whether the runs of a script train on a GPU: where there is one, unless --device says otherwise.
bool on_gpu(const ScriptContext&);

/// Bytes that a step of one rank may take: `memory` of `options`; without it 90 % of the GPU's memory, or on
/// a CPU 70 % of the free memory, shared by `ranks`. Throws an Error that names `who` if neither is
/// known.
double memory_limit(const LuaTable& options, ScriptContext&, const std::string& who, int64_t ranks);

/// How a micro-batch is looked for.
struct BatchLimits {
  double memory_bytes = 0;
  int64_t most = 1;     ///< sequences
  int64_t divides = 0;  ///< a number of sequences that micro-batches have to make up; 0: any
  bool trial = false;   ///< what is predicted has to be confirmed by a run of two steps
};

/// The largest power of two that a step of this spec can hold as its micro-batch; where `divides` says so,
/// accumulation makes up the rest of the step. 0: not even one sequence fits. None where it can't be
/// predicted, and no trial is to be made or can be.
std::optional<int64_t> largest_micro_batch(RunSpec, const BatchLimits&, ScriptContext&);

/// Gives each rung of a ladder, on top of the base of `experiment`, the largest micro-batch that its own
/// stack holds, at the base's sequences a step. External rungs have that of the rungs below. An Error names
/// the rung that can't.
void fill_memory(Part& ladder, const Experiment&, BatchLimits, ScriptContext&);
}  // namespace optrush

#pragma once
#include <string>
#include <vector>

#include "optrush/spec.h"

namespace optrush {
/// Identity of a spec: the sum of its JSON. How long a run may take is no part of what it is.
std::string spec_sha256(const RunSpec&);
/// The same without what only says how ranks share the work: their number, micro-batch, accumulation and
/// threads. Runs that agree in it and in the global batch train the same.
std::string training_sha256(const RunSpec&);
/// The files and folders that a run reads: its data, what it validates on, a checkpoint.
std::vector<std::string> input_paths(const RunSpec&);
/// Of the names, sizes and times of change of all files of these. It changes where one of them has.
std::string sum_of_inputs(const RunSpec&);
}  // namespace optrush

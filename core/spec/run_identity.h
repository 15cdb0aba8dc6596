#pragma once
#include <string>
#include <vector>

#include "optrush/spec.h"

namespace optrush {
/// SHA-256 of a spec's JSON without its time limit, which does not change the result.
std::string spec_sha256(const RunSpec&);
/// The same, also without the fields that only distribute the work over ranks: number of ranks, micro-batch,
/// accumulation and threads. Runs with equal values and equal global batches train the same.
std::string training_sha256(const RunSpec&);
/// The fields of these hashes that differ: "train.lr from 0.001 to 0.01". `training`: of training_sha256().
std::string changes_of_spec(const RunSpec& before, const RunSpec& now, bool training = false);
/// The files and folders that a run reads: data, validation data, checkpoint and the state in `start`.
std::vector<std::string> input_paths(const RunSpec&);
/// A hash of the names, sizes and modification times of all files below input_paths().
std::string sum_of_inputs(const RunSpec&);
}  // namespace optrush

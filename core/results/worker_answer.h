#pragma once
#include <filesystem>
#include <optional>

#include "optrush/json.h"
#include "results/status.h"

namespace optrush {
/// The content of a worker's --out file after a request for a plan or a list of cases: the answer, or the
/// failure.
struct WorkerAnswer {
  Json asked = {};
  std::optional<BadEnd> failure = {};
};
/// Throws an Error if the file can't be read.
WorkerAnswer read_answer(const std::filesystem::path&);
/// Writes a failure instead of the answer.
void write_failure(const std::filesystem::path&, const BadEnd&);
}  // namespace optrush

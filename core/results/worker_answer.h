#pragma once
#include <filesystem>
#include <optional>

#include "optrush/json.h"
#include "results/status.h"

namespace optrush {
/// The content of a worker's --out file after a request for a plan or for the cases of a check: the answer,
/// or why there is none.
struct WorkerAnswer {
  Json asked = {};
  std::optional<BadEnd> failure = {};
};
/// An Error where the file can't be read.
WorkerAnswer read_answer(const std::filesystem::path&);
/// In place of what was asked for.
void write_failure(const std::filesystem::path&, const BadEnd&);
}  // namespace optrush

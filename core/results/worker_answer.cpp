#include "results/worker_answer.h"

#include "base/files.h"
#include "results/run_result.h"

namespace optrush {
WorkerAnswer read_answer(const std::filesystem::path& file) {
  Json json = read_json(file);
  if (!json.is_object() || !json.contains("status")) return {.asked = std::move(json)};
  RunResult result = run_result_from_json(json, file.string());
  return {.failure = BadEnd{result.status, std::move(result.reason), result.code, std::move(result.where)}};
}

void write_failure(const std::filesystem::path& file, const BadEnd& end) {
  write_json(file, to_json(RunResult(end)));
}
}  // namespace optrush

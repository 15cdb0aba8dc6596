#pragma once
#include <filesystem>

namespace optrush {
/// Trains what the spec says; writes out/result.json and out/metrics.jsonl. 0 whenever a result was written.
int run_command(const std::filesystem::path& spec, const std::filesystem::path& out);
/// Applies the plugins and writes the plan. Errors are thrown.
int plan_command(const std::filesystem::path& spec, const std::filesystem::path& out);
/// Writes the GPUs that a run can train on, in CUDA's order: [{"name", "memory_bytes", "sm"}].
int gpus_command(const std::filesystem::path& out);
}  // namespace optrush

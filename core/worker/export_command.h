#pragma once
#include <filesystem>

namespace optrush {
/// Writes what a run of this spec starts from, so that any other program can do the same work: a Hugging Face
/// folder (config.json, model.safetensors) with the initial values, and tokens.safetensors with `tokens`
/// (steps, sequences, seq_len + 1), warm-up included. Plugins are left out.
int export_command(const std::filesystem::path& spec, const std::filesystem::path& out);
}  // namespace optrush

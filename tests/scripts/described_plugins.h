#pragma once
#include <filesystem>

namespace optrush::testing {
/// Writes plugin files that only describe themselves (an ELF header and a note, no code): what a script can
/// check of a plugin, it reads from there. mixed_precision, fused_adamw, flash_attention, checkpointing,
/// lora, eight_bit (conflicts with fused_adamw), grad_scaler (requires mixed_precision), accumulation and
/// freeze_blocks, the plugin of the documentation (their option must be given).
void write_described_plugins(const std::filesystem::path& folder);
}  // namespace optrush::testing

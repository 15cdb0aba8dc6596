#pragma once
#include <filesystem>

namespace optrush::testing {
/// Writes plugin files without code: an ELF header and a note with the description, which a script reads. The
/// plugins are mixed_precision, fused_adamw, flash_attention, checkpointing, lora, eight_bit (conflicts with
/// fused_adamw), grad_scaler (requires mixed_precision), accumulation and the documentation's freeze_blocks
/// (both require their option).
void write_described_plugins(const std::filesystem::path& folder);
}  // namespace optrush::testing

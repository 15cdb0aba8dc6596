#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/hugging_face_model.h"

namespace optrush {
/// Throws an Error if no run can start from this folder, from its config.json and the headers of its files.
/// `where`, in every function here: the place in the user's script that names the checkpoint.
void check_checkpoint(const std::filesystem::path& folder, const std::string& where);

/// Throws an Error if the sequences of a run are longer than this program computes exactly for the model of
/// its checkpoint.
void check_sequence_length(const RunSpec&, const HuggingFaceModel&, const std::string& where);
/// The same for a spec with or without a checkpoint.
void check_sequence_length(const RunSpec&, const std::string& where);

/// Warnings: encoders of the checkpoint that are not read; sequences with positions on which it was not
/// trained.
std::vector<std::string> warnings_of_checkpoint(const RunSpec&, const HuggingFaceModel&);
/// The same for a spec with or without a checkpoint. Its config.json must be readable.
std::vector<std::string> warnings_of_checkpoint(const RunSpec&);

/// The checkpoint folder of a run; empty: none.
std::filesystem::path checkpoint_of(const RunSpec&);
}  // namespace optrush

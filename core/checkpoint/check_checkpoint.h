#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/hugging_face_model.h"

namespace optrush {
/// An Error says why no run could start from this folder, by its config.json and the headers of its files.
/// `where`, of every Error here: the place in the user's script that names the checkpoint.
void check_checkpoint(const std::filesystem::path& folder, const std::string& where);

/// An Error where the sequences of a run are longer than the model of its checkpoint is computed exactly for.
void check_sequence_length(const RunSpec&, const HuggingFaceModel&, const std::string& where);
/// The same of a spec with or without a checkpoint.
void check_sequence_length(const RunSpec&, const std::string& where);

/// A warning where the sequences of a run have positions that its checkpoint was not trained on.
std::optional<std::string> untrained_positions(const RunSpec&, const HuggingFaceModel&);
/// The same of a spec with or without a checkpoint, whose config.json can be read.
std::optional<std::string> untrained_positions(const RunSpec&);

/// The folder that a run's model starts from; empty: none.
std::filesystem::path checkpoint_of(const RunSpec&);
}  // namespace optrush

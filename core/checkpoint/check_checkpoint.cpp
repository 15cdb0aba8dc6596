#include "checkpoint/check_checkpoint.h"

#include <algorithm>

#include "base/files.h"
#include "checkpoint/checkpoint_files.h"
#include "optrush/error.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
/// Whether a tensor is inside a linear of the model, like the tensors of an adapter.
bool inside_a_module(const std::string& name, const std::vector<std::string>& parameters) {
  return std::ranges::any_of(parameters, [&](const std::string& parameter) {
    return name.starts_with(parameter.substr(0, parameter.rfind('.') + 1));
  });
}

/// Gives errors the place in the user's script, and names the file in the message.
template <class Body>
auto at_line(const std::string& where, const Body& body) {
  try {
    return body();
  } catch (const Error& e) {
    throw Error(e.code(), (e.where().empty() ? "" : e.where() + ": ") + e.message(), e.cure(), where);
  }
}

void check_files(const fs::path& folder) {
  const HuggingFaceModel model = read_hugging_face_model(folder);
  const auto parameters = llama_parameters(model.llama);
  const CheckpointFiles files(folder);
  const auto tensors = joined_tensors(model, files).in_file(parameters);
  files.check_complete(tensors);
  std::vector<std::string> names, stored;
  for (const auto& parameter : parameters) names.push_back(parameter.name);
  for (const auto& tensor : tensors) stored.push_back(tensor.name);
  // a plugin of the run may use a tensor inside a module
  for (const auto& unknown : files.unknown(stored, model.ignored_tensors()))
    if (!inside_a_module(unknown, names)) files.refuse_unknown(unknown, names);
}
}  // namespace

void check_checkpoint(const fs::path& folder, const std::string& where) {
  at_line(where, [&] { check_files(folder); });
}

void check_sequence_length(const RunSpec& spec, const std::string& where) {
  if (const fs::path folder = checkpoint_of(spec); !folder.empty() && is_there(folder / "config.json"))
    check_sequence_length(spec, at_line(where, [&] { return read_hugging_face_model(folder); }), where);
}

std::vector<std::string> warnings_of_checkpoint(const RunSpec& spec) {
  const fs::path folder = checkpoint_of(spec);
  if (folder.empty() || !is_there(folder / "config.json")) return {};
  return warnings_of_checkpoint(spec, read_hugging_face_model(folder));
}

void check_sequence_length(const RunSpec& spec, const HuggingFaceModel& model, const std::string& where) {
  if (model.rotary.longest == 0 || spec.train.seq_len <= model.rotary.longest) return;
  const std::string longest = std::to_string(model.rotary.longest);
  throw Error(ErrorCode::unsupported,
              "train.seq_len is " + std::to_string(spec.train.seq_len) + ", but in the checkpoint '" +
                  checkpoint_of(spec).string() + "' rotary frequencies change beyond " + longest +
                  " positions ('rope_type' is \"dynamic\"); longer sequences are not supported",
              "set train.seq_len = " + longest + " or less", where);
}

std::vector<std::string> warnings_of_checkpoint(const RunSpec& spec, const HuggingFaceModel& model) {
  std::vector<std::string> warnings;
  if (!model.whole.empty())
    warnings.push_back("the checkpoint '" + checkpoint_of(spec).string() + "' is a " + model.whole +
                       ". Runs read and train its text model, a " + model.architecture +
                       ", without the encoders");
  const int64_t trained = model.max_positions, length = spec.train.seq_len;
  const std::string positions = std::to_string(trained);
  if (length > trained)
    warnings.push_back("train.seq_len is " + std::to_string(length) + ", but the checkpoint was trained on " +
                       positions + " positions (max_position_embeddings): tokens after the first " +
                       positions +
                       " of a sequence or document have positions that the model has not seen. Use "
                       "train.seq_len = " +
                       positions + ", unless the training is meant to extend the context");
  return warnings;
}

fs::path checkpoint_of(const RunSpec& spec) {
  if (spec.model_kind != "llama" || !spec.model.is_object()) return {};
  const auto found = spec.model.find("checkpoint");
  return found != spec.model.end() && found->is_string() ? fs::path(found->get<std::string>()) : fs::path();
}
}  // namespace optrush

#include "model/hugging_face.h"

#include <ATen/Functions.h>

#include <map>

#include "base/files.h"
#include "checkpoint/hugging_face_model.h"
#include "io/safetensors.h"
#include "optrush/error.h"
#include "optrush/initial_value.h"

namespace optrush {
namespace {
NamedShape named_shape(const Param& param) { return {param.name, param.shape}; }

/// The value that the class adds to this parameter's stored weight.
double offset_of(const std::string& parameter, const Storage& storage) {
  return parameter.ends_with("norm.weight") ? storage.norm_offset : 0;
}

Tensor plus(const Tensor& value, double offset) {
  return value.to(value.scalar_type() == at::kDouble ? at::kDouble : at::kFloat) + offset;
}
}  // namespace

Checkpoint::Checkpoint(const std::filesystem::path& folder)
    : Checkpoint(folder,
                 is_there(folder / "config.json") ? read_hugging_face_model(folder).storage : Storage{}) {}

Checkpoint::Checkpoint(const std::filesystem::path& folder, Storage storage)
    : files_(folder), folder_(folder), storage_(storage) {}

void Checkpoint::check_complete(const Params& model) const {
  std::vector<NamedShape> shapes;
  for (const Param* param : model.all()) shapes.push_back(named_shape(*param));
  files_.check_complete(shapes);
}

void Checkpoint::check_known(const Params& all) const {
  std::vector<std::string> names;
  for (const Param* param : all.all()) names.push_back(param->name);
  if (const auto strangers = files_.strangers(names); !strangers.empty())
    files_.refuse_stranger(strangers.front(), names);
}

Tensor Checkpoint::read(const Param& param) const {
  const auto* stored = files_.find(param.name);
  if (stored == nullptr)
    throw Error(ErrorCode::invalid_file, "the checkpoint has no '" + param.name + "'", {}, folder_.string());
  if (stored->entry->shape != param.shape) files_.check_complete({named_shape(param)});
  const Tensor value = read_tensor(*stored->file, *stored->entry);
  const double offset = offset_of(param.name, storage_);
  return offset == 0 ? value : plus(value, offset);
}

void check_adapters(const Params& all) {
  std::map<std::string, std::vector<NamedShape>> adapters;
  for (const Param* param : all.all())
    if (const auto* stored = param->init.target<FromFolder>())
      adapters[stored->folder].push_back(named_shape(*param));
  for (const auto& [folder, shapes] : adapters) {
    const CheckpointFiles files(folder);
    files.check_complete(shapes);
    std::vector<std::string> names;
    for (const auto& shape : shapes) names.push_back(shape.name);
    if (const auto strangers = files.strangers(names); !strangers.empty())
      throw Error(ErrorCode::invalid_value,
                  "the adapter has '" + strangers.front() + "', which this run does not train",
                  "name its module in the plugin's options, as adapter_config.json does", folder);
  }
}

Tensor stored_value(const std::string& parameter, const Tensor& value, const Storage& storage) {
  const double offset = offset_of(parameter, storage);
  return offset == 0 ? value : plus(value, -offset);
}
}  // namespace optrush

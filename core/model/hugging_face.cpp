#include "model/hugging_face.h"

#include "io/safetensors.h"
#include "optrush/error.h"

namespace optrush {
namespace {
NamedShape named_shape(const Param& param) { return {param.name, param.shape}; }
}  // namespace

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
  return read_tensor(*stored->file, *stored->entry);
}
}  // namespace optrush

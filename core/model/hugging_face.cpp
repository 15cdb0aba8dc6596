#include "model/hugging_face.h"

#include <ATen/Functions.h>

#include <map>

#include "base/files.h"
#include "checkpoint/hugging_face_model.h"
#include "optrush/advanced/initial_value.h"
#include "optrush/error.h"

namespace optrush {
namespace {
NamedShape named_shape(const Param& param) { return {param.name, param.shape}; }

/// The value that the class adds to this parameter's stored weight.
double offset_of(const std::string& parameter, const Storage& storage) {
  const bool of_gated_output = parameter.ends_with(".linear_attn.norm.weight");
  return parameter.ends_with("norm.weight") && !of_gated_output ? storage.norm_offset : 0;
}

/// The entry of one expert; the whole entry if there is none.
SafetensorsEntry of_expert(SafetensorsEntry entry, int64_t expert) {
  if (expert < 0) return entry;
  const size_t bytes = (entry.end - entry.begin) / static_cast<size_t>(entry.shape.front());
  entry.begin += static_cast<size_t>(expert) * bytes;
  entry.end = entry.begin + bytes;
  entry.shape.erase(entry.shape.begin());
  return entry;
}

/// The part of a matrix or vector, as a view.
Tensor rows_of(const Tensor& whole, const PlaceInFile& place) {
  const Tensor rows = place.transposed && whole.dim() == 2 ? whole.t() : whole;
  return rows.slice(0, place.first, place.first + place.step * (place.rows - 1) + 1, place.step);
}

/// (out, in) in fp32 of blocks (out, in / 32, 16), two 4-bit numbers a byte with the lower half first, and
/// the exponents of their scales, 127 more than their values (OCP Microscaling Formats 1.0).
Tensor from_mxfp4(const Tensor& blocks, const Tensor& scales) {
  const Tensor magnitudes = at::tensor({0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0}, at::kFloat);
  const Tensor values = at::cat({magnitudes, magnitudes.neg()});
  const Tensor low = blocks.bitwise_and(15), high = blocks.div(16, "floor");
  const Tensor codes = at::stack({low, high}, -1).flatten(-2).to(at::kInt);
  const Tensor numbers = values.index_select(0, codes.flatten()).view(codes.sizes());
  return at::ldexp(numbers, scales.to(at::kInt).sub(127).unsqueeze(-1)).flatten(1);
}

Tensor plus(const Tensor& value, double offset) {
  return value.to(value.scalar_type() == at::kDouble ? at::kDouble : at::kFloat) + offset;
}
}  // namespace

Checkpoint::Checkpoint(const std::filesystem::path& folder) : files_(folder), folder_(folder) {
  if (!is_there(folder / "config.json")) return;
  const HuggingFaceModel model = read_hugging_face_model(folder);
  storage_ = model.storage;
  joined_ = joined_tensors(model, files_);
  ignored_ = model.ignored_tensors();
}

Checkpoint::Checkpoint(const std::filesystem::path& folder, Storage storage)
    : files_(folder), folder_(folder), storage_(std::move(storage)) {}

void Checkpoint::check_complete(const Params& model) const {
  std::vector<NamedShape> shapes;
  for (const Param* param : model.all()) shapes.push_back(named_shape(*param));
  files_.check_complete(joined_.in_file(shapes));
}

void Checkpoint::check_known(const Params& all) const {
  std::vector<NamedShape> shapes;
  for (const Param* param : all.all()) shapes.push_back(named_shape(*param));
  std::vector<std::string> names;
  for (const NamedShape& tensor : joined_.in_file(shapes)) names.push_back(tensor.name);
  if (const auto unknown = files_.unknown(names, ignored_); !unknown.empty())
    files_.refuse_unknown(unknown.front(), names);
}

Tensor Checkpoint::read(const Param& param) const {
  if (const PlaceInFile* place = joined_.find(param.name)) return read_part(*place);
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
    if (const auto unknown = files.unknown(names); !unknown.empty())
      throw Error(ErrorCode::invalid_value,
                  "the adapter has '" + unknown.front() + "', which this run does not train",
                  "name its module in the plugin's options, as adapter_config.json does", folder);
  }
}

Tensor Checkpoint::read_part(const PlaceInFile& place) const {
  files_.check_complete({place.tensor});
  const auto read = [&](const std::string& name) {
    const auto* stored = files_.find(name);
    return read_tensor(*stored->file, of_expert(*stored->entry, place.expert));
  };
  const auto [blocks, scales] = mxfp4_names(place.tensor.name);
  const bool whole = files_.find(place.tensor.name) != nullptr;
  const Tensor matrix = whole ? read(place.tensor.name) : from_mxfp4(read(blocks), read(scales)).t();
  return rows_of(matrix, place).contiguous();
}

NamedTensors tensors_of_file(NamedTensors parameters, const Storage& storage) {
  std::vector<NamedShape> shapes;
  for (const auto& [name, value] : parameters) shapes.push_back({name, value.sizes().vec()});
  const JoinedTensors joined(shapes, storage);
  NamedTensors tensors;
  std::map<std::string, Tensor> wholes;
  for (auto& [name, value] : parameters) {
    const PlaceInFile* place = joined.find(name);
    if (place == nullptr) {
      tensors.emplace_back(stored_name(name, storage.names), std::move(value));
      continue;
    }
    Tensor& whole = wholes[place->tensor.name];
    if (!whole.defined()) {
      whole = at::empty(place->tensor.shape, value.options());
      tensors.emplace_back(stored_name(place->tensor.name, storage.names), whole);
    }
    rows_of(place->expert < 0 ? whole : whole.select(0, place->expert), *place).copy_(value);
    value.reset();
  }
  return tensors;
}

Tensor stored_value(const std::string& parameter, const Tensor& value, const Storage& storage) {
  const double offset = offset_of(parameter, storage);
  return offset == 0 ? value : plus(value, -offset);
}
}  // namespace optrush

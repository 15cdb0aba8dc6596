#include "io/safetensors.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>

#include "base/files.h"
#include "base/text.h"
#include "optrush/error.h"

namespace optrush {
namespace {
constexpr size_t kAlignment = 8;  // alignment of the data: the header is padded with spaces

struct Dtype {
  const char* name;
  at::ScalarType type;
};
constexpr Dtype kDtypes[] = {{"F64", at::kDouble},    {"F32", at::kFloat}, {"F16", at::kHalf},
                             {"BF16", at::kBFloat16}, {"I64", at::kLong},  {"I32", at::kInt},
                             {"I16", at::kShort},     {"I8", at::kChar},   {"U8", at::kByte},
                             {"BOOL", at::kBool}};

const char* name_of(at::ScalarType type) {
  for (const auto& dtype : kDtypes)
    if (dtype.type == type) return dtype.name;
  throw Error(ErrorCode::unsupported, std::string("safetensors has no dtype for ") + c10::toString(type));
}
}  // namespace

at::ScalarType scalar_type(const SafetensorsEntry& entry, const std::string& origin) {
  std::vector<std::string> names;
  for (const auto& dtype : kDtypes) {
    if (entry.dtype == dtype.name) return dtype.type;
    names.emplace_back(dtype.name);
  }
  throw Error(ErrorCode::unsupported,
              "tensor '" + entry.name + "' has dtype " + entry.dtype + ", which is not supported",
              "supported: " + join(names), origin);
}

Tensor read_tensor(const SafetensorsView& file, const SafetensorsEntry& entry) {
  Tensor tensor = at::empty(entry.shape, scalar_type(entry, file.path()));
  if (const auto data = file.bytes(entry); !data.empty())
    std::memcpy(tensor.mutable_data_ptr(), data.data(), data.size());
  return tensor;
}

void write_safetensors(const std::filesystem::path& path, std::vector<std::pair<std::string, Tensor>> tensors,
                       const SafetensorsMetadata& metadata) {
  // Tensors with wide elements first, so that every tensor is aligned for readers that map the file.
  std::ranges::stable_sort(tensors, std::greater(),
                           [](const auto& named) { return named.second.element_size(); });
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::vector<Tensor> values;  // contiguous copies on the CPU
  size_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    if (header.contains(name))
      throw Error(ErrorCode::invalid_file, "two tensors are named '" + name + "'", {}, path.string());
    values.push_back(tensor.detach().cpu().contiguous());
    header[name] = {{"dtype", name_of(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, offset + tensor.nbytes()}}};
    offset += tensor.nbytes();
  }
  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const uint64_t size = text.size();
  std::vector<std::string_view> pieces = {{reinterpret_cast<const char*>(&size), sizeof size}, text};
  for (const Tensor& value : values)
    pieces.emplace_back(static_cast<const char*>(value.const_data_ptr()), value.nbytes());
  write_file(path, pieces);
}
}  // namespace optrush

#include "io/safetensors.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/files.h"
#include "base/text.h"
#include "optrush/error.h"

namespace optrush {
namespace {
constexpr size_t kAlignment = 8;        // alignment of the data: the header is padded with spaces
constexpr int64_t kPiece = 16L << 20U;  // bytes of a piece that is copied before it is written

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

/// Passes the elements of a tensor on, in order, as views of at most kPiece bytes.
void in_pieces(const Tensor& tensor, const std::function<void(const Tensor&)>& take) {
  if (static_cast<int64_t>(tensor.nbytes()) <= kPiece) return take(tensor);
  const Tensor rows = tensor.is_contiguous() ? tensor.view(-1) : tensor;
  const int64_t fit = kPiece * rows.size(0) / static_cast<int64_t>(rows.nbytes());
  for (int64_t row = 0; row < rows.size(0); row += std::max<int64_t>(fit, 1))
    if (fit == 0)
      in_pieces(rows.select(0, row), take);
    else
      take(rows.narrow(0, row, std::min(fit, rows.size(0) - row)));
}

/// Writes the bytes of tensors. Those on a device, or with other strides, go through one buffer, so that the
/// host never holds a copy of a whole state.
class TensorWriter {
 public:
  explicit TensorWriter(const Sink& sink) : sink_(sink) {}

  void write(const Tensor& tensor) {
    if (tensor.is_cpu() && tensor.is_contiguous()) return put(tensor);
    in_pieces(tensor, [&](const Tensor& piece) {
      if (piece.numel() == 0) return;
      if (!buffer_.defined() || (tensor.is_cuda() && !buffer_.is_pinned()))
        buffer_ = at::empty({kPiece}, at::TensorOptions(at::kByte).pinned_memory(tensor.is_cuda()));
      const auto bytes = static_cast<int64_t>(piece.nbytes());
      const Tensor copy = buffer_.narrow(0, 0, bytes).view(piece.scalar_type()).view(piece.sizes());
      put(copy.copy_(piece));
    });
  }

 private:
  void put(const Tensor& contiguous) const {
    sink_({static_cast<const char*>(contiguous.const_data_ptr()), contiguous.nbytes()});
  }

  const Sink& sink_;
  Tensor buffer_;
};
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

SafetensorsContent::SafetensorsContent(NamedTensors tensors, const SafetensorsMetadata& metadata)
    : tensors_(std::move(tensors)) {
  // Tensors with wide elements first, so that every tensor is aligned for readers that map the file.
  std::ranges::stable_sort(tensors_, std::greater(),
                           [](const auto& named) { return named.second.element_size(); });
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  for (const auto& [name, tensor] : tensors_) {
    if (header.contains(name)) throw Error(ErrorCode::invalid_file, "two tensors are named '" + name + "'");
    const auto end = data_bytes_ + static_cast<int64_t>(tensor.nbytes());
    header[name] = {{"dtype", name_of(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {data_bytes_, end}}};
    data_bytes_ = end;
  }
  header_ = header.dump();
  header_.resize((header_.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
}

int64_t SafetensorsContent::bytes() const {
  return static_cast<int64_t>(sizeof(uint64_t) + header_.size()) + data_bytes_;
}

int64_t SafetensorsContent::staged_bytes(bool on_host) const {
  const bool direct = std::ranges::all_of(tensors_, [&](const auto& named) {
    return (on_host || named.second.is_cpu()) && named.second.is_contiguous();
  });
  return direct ? 0 : kPiece;
}

void SafetensorsContent::write(const std::filesystem::path& path) const {
  const uint64_t size = header_.size();
  write_pieces(path, [&](const Sink& sink) {
    sink({reinterpret_cast<const char*>(&size), sizeof size});
    sink(header_);
    TensorWriter writer(sink);
    for (const auto& [name, tensor] : tensors_) writer.write(tensor.detach());
  });
}

void write_safetensors(const std::filesystem::path& path, NamedTensors tensors,
                       const SafetensorsMetadata& metadata) {
  SafetensorsContent(std::move(tensors), metadata).write(path);
}
}  // namespace optrush

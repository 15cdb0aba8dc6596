#pragma once
#include <c10/core/ScalarType.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/safetensors_header.h"
#include "optrush/tensor.h"

namespace optrush {
/// The dtype of an entry. Throws an Error if LibTorch has no such type, or no code here supports it.
at::ScalarType scalar_type(const SafetensorsEntry&, const std::string& origin);

/// Copies a tensor to the CPU, in the stored dtype.
Tensor read_tensor(const SafetensorsView&, const SafetensorsEntry&);

/// A safetensors file whose tensors LibTorch reads.
class SafetensorsFile : public SafetensorsView {
 public:
  using SafetensorsView::SafetensorsView;
  /// read_tensor() by name. Throws an Error if the file has no such tensor.
  Tensor read(std::string_view name) const { return read_tensor(*this, entry(name)); }
};

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// A safetensors file that is laid out but not written. Tensors may have any device and strides.
class SafetensorsContent {
 public:
  /// Throws an Error if two tensors have one name, or if the format has no such dtype.
  explicit SafetensorsContent(NamedTensors tensors, const SafetensorsMetadata& metadata = {});
  /// Size of the file in bytes.
  int64_t bytes() const;
  /// Bytes of host memory through which write() copies tensors on a device, and tensors with other strides.
  /// `on_host`: the device of the tensors stands for the host.
  int64_t staged_bytes(bool on_host) const;
  /// Writes the file by temporary file and rename.
  void write(const std::filesystem::path&) const;

 private:
  NamedTensors tensors_;  ///< in the order of their data
  std::string header_;
  int64_t data_bytes_ = 0;
};

/// Writes SafetensorsContent.
void write_safetensors(const std::filesystem::path&, NamedTensors tensors,
                       const SafetensorsMetadata& metadata = {});
}  // namespace optrush

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

/// Writes a file by temporary file and rename. Tensors may be on any device and have any strides; dtypes are
/// kept. The host's memory holds 16 MiB of what is copied at a time.
void write_safetensors(const std::filesystem::path&, std::vector<std::pair<std::string, Tensor>> tensors,
                       const SafetensorsMetadata& metadata = {});
}  // namespace optrush

#pragma once
#include <string>
#include <vector>

namespace optrush {
/// A type in the notation of Parameter, taken apart.
struct Type {
  enum class Form : uint8_t { name, list, map };
  Form form = Form::name;
  std::string name;  ///< of a scalar or class; of the items otherwise, a type again
};

/// The alternatives of "Model|LlamaFields?": X|Y, without the "?". A bar inside <> or () belongs to the
/// alternative.
std::vector<Type> alternatives(const std::string& type);
}  // namespace optrush

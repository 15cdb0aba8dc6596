#pragma once
#include <string>
#include <vector>

namespace optrush {
/// A parsed type in the notation of Parameter.
struct Type {
  enum class Form : uint8_t { name, list, map };
  Form form = Form::name;
  std::string name;  ///< name of a scalar or class; for lists and maps, the type of the items
};

/// The alternatives of a type such as "Model|LlamaFields?", without the "?". A bar inside <> or () belongs to
/// the alternative.
std::vector<Type> alternatives(const std::string& type);
}  // namespace optrush

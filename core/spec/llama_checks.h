#pragma once
#include <string>

namespace optrush {
struct LlamaSpec;

/// Throws an Error with `where` if fields of the spec contradict each other.
void check_llama(const LlamaSpec&, const std::string& where);
}  // namespace optrush

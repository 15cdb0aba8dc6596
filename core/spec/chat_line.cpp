#include "spec/chat_line.h"

#include <algorithm>
#include <array>

namespace optrush {
bool is_chat(const Json& line) {
  constexpr std::array kOfChats = {"messages", "conversations", "conversation", "instruction"};
  constexpr std::array kParts = {"prompt", "completion", "chosen", "rejected"};
  if (line.contains("tokens")) return false;
  return std::ranges::any_of(kOfChats, [&](const char* name) { return line.contains(name); }) ||
         std::ranges::any_of(kParts, [&](const char* name) {
           const auto part = line.find(name);
           return part != line.end() && part->is_array() && !part->empty() && part->front().is_object();
         });
}
}  // namespace optrush

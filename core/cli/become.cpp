#include "cli/become.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "optrush/error.h"

namespace optrush {
void become(std::vector<std::string> words, const std::string& cure) {
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execv(words.front().c_str(), pointers.data());
  throw Error(ErrorCode::file_access, "cannot start '" + words.front() + "': " + std::strerror(errno), cure);
}
}  // namespace optrush

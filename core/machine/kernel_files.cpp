#include "machine/kernel_files.h"

#include <fstream>
#include <sstream>

#include "base/files.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
std::string trimmed(const std::string& text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}
}  // namespace

std::string kernel_text(const fs::path& file) {
  std::ifstream in(file);
  return trimmed(rest_of(in));
}

std::map<std::string, std::string> key_values(const std::string& text) {
  std::map<std::string, std::string> values;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon != std::string::npos)
      values.emplace(trimmed(line.substr(0, colon)), trimmed(line.substr(colon + 1)));
  }
  return values;
}

std::optional<int64_t> number_after(const std::string& key, const std::string& text) {
  std::istringstream words(text);
  int64_t value = 0;
  for (std::string word; words >> word;)
    if (word == key && words >> value) return value;
  return std::nullopt;
}

std::string chosen_word(const std::string& choices) {
  const size_t begin = choices.find('[');
  return begin == std::string::npos ? choices : choices.substr(begin + 1, choices.find(']') - begin - 1);
}

std::string control_group(const fs::path& root, const std::string& file) {
  const std::string groups = kernel_text(root / "proc/self/cgroup");
  if (const size_t at = groups.find("0::/"); at != std::string::npos) {
    const std::string path = groups.substr(at + 4, groups.find('\n', at) - at - 4);
    if (std::string text = kernel_text(root / "sys/fs/cgroup" / path / file); !text.empty()) return text;
  }
  return kernel_text(root / "sys/fs/cgroup" / file);
}

std::optional<double> cpu_quota(const fs::path& root) {
  std::istringstream limit(control_group(root, "cpu.max"));  // for example "200000 100000" or "max 100000"
  double quota = 0, period = 0;
  return limit >> quota >> period && period > 0 ? std::optional(quota / period) : std::nullopt;
}
}  // namespace optrush

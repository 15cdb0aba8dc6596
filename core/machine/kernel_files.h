#pragma once
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

// Files of /proc and /sys. Missing files are normal. `root`: of the file system; tests pass another.
namespace optrush {
/// The content of a file without white space around it; "" if this process cannot read it.
std::string kernel_text(const std::filesystem::path&);
/// The number at the start of a text.
template <class T>
std::optional<T> first_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}
/// Parses lines of the form "key : value". The first line of a key counts.
std::map<std::string, std::string> key_values(const std::string& text);
/// The number of a key in a text of the form "key number key number ..."; none if it is absent.
std::optional<int64_t> number_after(const std::string& key, const std::string& text);
/// The choice in brackets: "madvise" in "always [madvise] never".
std::string chosen_word(const std::string& choices);
/// A file of this process's control group (version 2), or of the root group (of a container).
std::string control_group(const std::filesystem::path& root, const std::string& file);
/// The cores that the control group allows; none if there is no limit.
std::optional<double> cpu_quota(const std::filesystem::path& root);
}  // namespace optrush

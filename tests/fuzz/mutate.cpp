#include "mutate.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace optrush::fuzz {
namespace {
constexpr std::string_view kSyntax[] = {
    "[", "]",  "{",    "}",  "(",   ")",   "\"",   ",",     ":",     "=",    "-1",
    "0", "\n", "null", "[]", "1.5", "NaN", "true", "1e999", "\\u00", "\xff", "9223372036854775807"};
constexpr uint64_t kBoundaryValues[] = {
    0, 1, 0x7f, 0xff, 0xffff, 0x7fffffff, 0xffffffff, 0x7fffffffffffffff, ~0ULL};
}  // namespace

std::string Mutator::operator()(std::string input) {
  for (size_t changes = 1 + below(4); changes > 0; --changes) {
    const size_t kind = below(4);
    if (kind < 2 && (change_json(input) || change_json_of_a_line(input))) continue;
    change_bytes(input);
  }
  return input;
}

bool Mutator::change_json(std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_structured()) return false;
  change_value(json);
  text = json.dump(-1, ' ', below(2) == 0, Json::error_handler_t::replace);
  return true;
}

bool Mutator::change_json_of_a_line(std::string& text) {
  const size_t at = position(text.size());
  const size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
  const size_t end = std::min(text.find('\n', at), text.size());
  std::string line = text.substr(begin, end - begin);
  if (!change_json(line)) return false;
  text.replace(begin, end - begin, line);
  return true;
}

/// Replaces or removes one nested value, or changes its key.
void Mutator::change_value(Json& json) {
  if (!json.is_structured() || json.empty() || below(5) == 0) {
    json = value();
    return;
  }
  auto it = json.begin();
  std::advance(it, static_cast<ptrdiff_t>(below(json.size())));
  switch (below(10)) {
    case 0:
      json.erase(it);
      break;
    case 1:
      if (json.is_array()) {
        json.push_back(Json(*it));
      } else {
        const std::string key = it.key() + "x";
        json[key] = value();
      }
      break;
    default:
      change_value(*it);
  }
}

Json Mutator::value() {
  static const std::vector<Json> values = {Json(),
                                           true,
                                           0,
                                           1,
                                           -1,
                                           3,
                                           0.5,
                                           1e308,
                                           -0.0,
                                           INT64_MAX,
                                           INT64_MIN,
                                           UINT64_MAX,
                                           "",
                                           "text",
                                           "a/b",
                                           std::string(1, '\0'),
                                           Json::array(),
                                           Json::object(),
                                           Json::array({1, "a"}),
                                           {{"a", {{"b", 1}}}},
                                           std::string(300, 'x')};
  const size_t chosen = below(values.size() + words_.size());
  if (chosen < values.size()) return values[chosen];
  const std::string& word = words_[chosen - values.size()];
  const Json json = Json::parse(word, nullptr, false);
  return json.is_discarded() ? Json(word) : json;
}

/// Often near an end, because formats have headers and tables there.
size_t Mutator::position(size_t size) {
  constexpr size_t kHeader = 64;
  const size_t near = below(std::min(size, kHeader) + 1);
  switch (below(4)) {
    case 0:
      return near;
    case 1:
      return size - near;
    default:
      return below(size + 1);
  }
}

void Mutator::change_bytes(std::string& bytes) {
  const size_t at = position(bytes.size());
  const size_t rest = bytes.size() - at;
  switch (below(8)) {
    case 0:
      bytes.resize(at);
      break;
    case 1:
      bytes.erase(at, 1 + below(16));
      break;
    case 2:
      bytes.insert(at, bytes.substr(below(bytes.size() + 1), 1 + below(64)));
      break;
    case 3:
      bytes.insert(at, kSyntax[below(std::size(kSyntax))]);
      break;
    case 4:
      if (!words_.empty()) bytes.replace(at, below(8), words_[below(words_.size())]);
      break;
    case 5: {
      const uint64_t edge = kBoundaryValues[below(std::size(kBoundaryValues))];
      const size_t width = std::min(size_t{1} << below(4), rest);
      std::memcpy(bytes.data() + at, &edge, width);
      break;
    }
    case 6:
      if (rest > 0) bytes[at] = static_cast<char>(random_());
      break;
    default:
      if (rest > 0) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
  }
}
}  // namespace optrush::fuzz

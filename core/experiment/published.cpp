#include "experiment/published.h"

#include <cctype>
#include <vector>

#include "spec/fields.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
constexpr double kMost = 1000;

const Fields<Published>& published_fields() {
  using T = Published;
  static const auto fields =
      Fields<T>()
          .optional(&T::speedup, {.name = "speedup",
                                  .doc = "tokens/s over the rung below: 1.75 is 75 % more",
                                  .min = 0,
                                  .max = kMost})
          .optional(&T::memory, {.name = "memory",
                                 .doc = "peak memory over the rung below's: 0.7 is 30 % less",
                                 .min = 0,
                                 .max = kMost})
          .required(&T::source, {.name = "source", .doc = "who published it"})
          .required(&T::on,
                    {.name = "on", .doc = "the device, a comma, the problem: \"A100-80GB, sequence 2048\""});
  return fields;
}

/// "A100-80GB" -> A100, 80GB; in lower case, as names of devices differ in it.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0)
      words.back() += static_cast<char>(std::tolower(byte));
    else if (!words.back().empty())
      words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}
}  // namespace

bool Published::comparable_with(const std::string& device) const {
  const auto wanted = words_of(on.substr(0, on.find(','))), given = words_of(device);
  return !wanted.empty() && std::ranges::all_of(wanted, [&](const std::string& word) {
    return std::ranges::find(given, word) != given.end();
  });
}

Json to_json(const Published& published) { return published_fields().write(published); }

Published published_from_json(const Json& json, const std::string& where) {
  Published published = published_fields().read(json, "expect", where);
  if (published.speedup == 0 && published.memory == 0)
    throw Error("expect says neither a speedup nor a memory",
                "expect = { speedup = 1.75, source = ..., on = ... }", where);
  for (const auto& [name, text] : {std::pair("source", &published.source), std::pair("on", &published.on)})
    if (text->empty()) throw Error(std::string("expect.") + name + " is empty", {}, where);
  return published;
}
}  // namespace optrush

#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "optrush/json.h"

namespace optrush::fuzz {
/// Makes inputs of inputs by small damage, the same for the same seed on every machine: bytes, words of a
/// dictionary, and where the input or a line of it is JSON, values in it.
class Mutator {
 public:
  Mutator(uint64_t seed, const std::vector<std::string>& words) : random_(seed), words_(words) {}
  /// With one to four changes.
  std::string operator()(std::string input);

 private:
  size_t below(size_t n) { return n == 0 ? 0 : random_() % n; }
  bool change_json(std::string& text);
  bool change_json_of_a_line(std::string& text);
  void change_value(Json& json);
  Json value();
  void change_bytes(std::string& bytes);
  size_t position(size_t size);

  std::mt19937_64 random_;
  const std::vector<std::string>& words_;
};
}  // namespace optrush::fuzz

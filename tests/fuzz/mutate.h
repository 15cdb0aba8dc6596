#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "optrush/json.h"

namespace optrush::fuzz {
/// Mutates inputs: bytes, words of a dictionary, and values of JSON if the input or a line of it is JSON. A
/// seed gives the same mutations on every machine.
class Mutator {
 public:
  Mutator(uint64_t seed, const std::vector<std::string>& words) : random_(seed), words_(words) {}
  /// The input with one to four changes.
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

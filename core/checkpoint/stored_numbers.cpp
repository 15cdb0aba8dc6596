#include "checkpoint/stored_numbers.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>

namespace optrush {
namespace {
template <class T>
T element(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

double from_half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double size = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31)
    size = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  return (bits >> 15) != 0 ? -size : size;
}

struct Decoder {
  size_t bytes;
  double (*read)(const std::byte*);
};

const Decoder* decoder_of(const std::string& dtype) {
  static const std::map<std::string, Decoder> known = {
      {"F64", {8, element<double>}},
      {"F32", {4, [](const std::byte* at) -> double { return element<float>(at); }}},
      {"F16", {2, [](const std::byte* at) { return from_half(element<uint16_t>(at)); }}},
      {"BF16", {2, [](const std::byte* at) -> double {
                  return std::bit_cast<float>(uint32_t{element<uint16_t>(at)} << 16);
                }}}};
  const auto it = known.find(dtype);
  return it == known.end() ? nullptr : &it->second;
}
}  // namespace

bool same_numbers(const StoredNumbers& a, const StoredNumbers& b) {
  if (a.dtype == b.dtype && a.bytes.size() == b.bytes.size() &&
      (a.bytes.empty() || std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0))
    return true;
  const Decoder *x = decoder_of(a.dtype), *y = decoder_of(b.dtype);
  if (x == nullptr || y == nullptr || a.bytes.size() / x->bytes != b.bytes.size() / y->bytes) return false;
  for (size_t i = 0; i < a.bytes.size() / x->bytes; ++i)
    if (x->read(a.bytes.data() + i * x->bytes) != y->read(b.bytes.data() + i * y->bytes)) return false;
  return true;
}
}  // namespace optrush

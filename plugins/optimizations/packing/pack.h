#pragma once
#include <span>

#include "optrush/batch.h"

namespace optrush::packing {
/// Documents of these lengths (each at most `capacity`) in as few rows as best-fit decreasing finds: the
/// longest first, each where it leaves least room (arXiv:2404.10830, section 3.1; at most 11/9 of the best
/// number and 1, Johnson 1973). Inside a row they have the order of their numbers.
Rows pack(std::span<const int64_t> lengths, int64_t capacity);
}  // namespace optrush::packing

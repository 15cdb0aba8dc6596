#pragma once
#include <span>

#include "optrush/batch.h"

namespace optrush::packing {
/// Distributes documents of these lengths (each at most `capacity`) over rows by best-fit decreasing: the
/// longest document first, each into the row with the least remaining room (arXiv:2404.10830, section 3.1; at
/// most 11/9 of the best number of rows plus 1, Johnson 1973). Inside a row documents are ordered by their
/// numbers.
Rows pack(std::span<const int64_t> lengths, int64_t capacity);
}  // namespace optrush::packing

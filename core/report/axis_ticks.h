#pragma once
#include <vector>

namespace optrush {
/// Ticks of a logarithmic axis, around all that lies from `low` to `high` (both > 0): 1, 2 and 5 times powers
/// of ten; over many decades powers of ten alone, or every second of them.
std::vector<double> log_ticks(double low, double high);
/// The same in powers of two, which are round numbers of KiB, MiB and GiB.
std::vector<double> log_byte_ticks(double low, double high);
/// Ticks of a linear axis from zero on, in steps of a power of two.
std::vector<double> byte_ticks(double high);
}  // namespace optrush

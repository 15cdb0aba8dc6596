#pragma once
#include <string>

namespace optrush {
// Numbers as text, the same under every locale.

/// "1234.50"
std::string fixed(double value, int digits);
/// "1,234.5"; three significant digits below 1,000, none behind the point above.
std::string grouped(double value);
/// "5.1e-03"
std::string scientific(double value, int digits = 1);
/// Shortest text that reads back as the same number, for CSV.
std::string exact_number(double value);
/// An amount in powers of two, "1.55 GiB", three significant digits.
std::string bytes(double value);
/// A rate in powers of ten, as data sheets have it: "20.5 GB/s".
std::string byte_rate(double per_second);
/// "420 GFLOP/s"
std::string flops_rate(double per_second);
/// "12.3 ms"
std::string duration(double seconds);
/// 0.123 is "12.3 %"
std::string percent(double fraction, int digits = 1);
/// A ratio as a change: 0.8 is "-20.0 %".
std::string change(double ratio, int digits = 1);
}  // namespace optrush

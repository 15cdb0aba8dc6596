#pragma once
#include <string>

namespace optrush {
// Numbers as text, independent of the locale.

/// "1234.50"
std::string fixed(double value, int digits);
/// "12.3", "1,235": three significant digits below 1,000, no decimals above.
std::string grouped(double value);
/// "5.1e-03"
std::string scientific(double value, int digits = 1);
/// "0.0123", "12.3": this many significant digits.
std::string significant(double value, int digits);
/// The shortest text that parses to the same number, for CSV.
std::string exact_number(double value);
/// A number of bytes with units of powers of two and three significant digits: "1.55 GiB".
std::string bytes(double value);
/// A rate with units of powers of ten, as in data sheets: "20.5 GB/s".
std::string byte_rate(double per_second);
/// "420 GFLOP/s"
std::string flops_rate(double per_second);
/// "12.3 ms"
std::string duration(double seconds);
/// 0.123 is "12.3 %"
std::string percent(double fraction, int digits = 1);
/// A relative difference with two significant digits: "0.48 %", "25 %"; "3.1e-07" below 0.001 %.
std::string share_text(double fraction);
/// A ratio as a change: 0.8 is "-20.0 %".
std::string change(double ratio, int digits = 1);
}  // namespace optrush

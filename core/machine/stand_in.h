#pragma once
#include <string_view>

namespace optrush {
/// Whether this is a device of tests/fake_cuda, which runs the host side of a program and computes nothing.
inline bool is_stand_in(std::string_view device_name) { return device_name.starts_with("FAKE"); }
inline constexpr const char* kNothingComputed =
    "The device is a stand-in for a GPU: it computes nothing, so no figure of it is a measurement.";
}  // namespace optrush

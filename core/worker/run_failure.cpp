#include "worker/run_failure.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <new>
#include <string_view>
#include <utility>

#include "distributed/peer_error.h"
#include "optrush/error.h"

namespace optrush {
namespace {
/// LibTorch's messages carry a stack trace after the first lines.
std::string first_lines(const std::string& text) {
  return text.substr(0, text.find("\nException raised from"));
}

/// What says so without being a c10::OutOfMemoryError: the host's allocator, and libraries whose workspaces
/// do not come from LibTorch's.
bool tells_of_memory(const std::string& message) {
  static constexpr std::array<const char*, 5> kSigns = {"can't allocate memory", "CUDA error: out of memory",
                                                        "CUDA out of memory", "CUBLAS_STATUS_ALLOC_FAILED",
                                                        "CUDNN_STATUS_ALLOC_FAILED"};
  return std::ranges::any_of(kSigns,
                             [&](const char* sign) { return message.find(sign) != std::string::npos; });
}

Json out_of_memory(const std::string& message) {
  const auto bytes = requested_bytes(message);
  return {{"status", "oom"}, {"reason", message}, {"requested_bytes", bytes ? Json(*bytes) : Json()}};
}
}  // namespace

std::optional<int64_t> requested_bytes(const std::string& message) {
  static constexpr std::string_view kBefore = "ried to allocate ";
  static constexpr std::array<std::pair<std::string_view, int>, 4> kUnits = {
      {{" bytes", 0}, {" KiB", 10}, {" MiB", 20}, {" GiB", 30}}};
  const size_t found = message.find(kBefore);
  if (found == std::string::npos) return std::nullopt;
  const char* const end = message.data() + message.size();
  double number = 0;
  const auto [after, error] =
      std::from_chars(message.data() + found + kBefore.size(), end, number, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  const std::string_view rest(after, end);
  for (const auto& [unit, shift] : kUnits)
    if (const double bytes = std::ldexp(number, shift);
        rest.starts_with(unit) && bytes >= 0 && bytes < 0x1p63)
      return std::llround(bytes);
  return std::nullopt;
}

Json failure_of(const std::exception& error) {
  if (const auto* peer = dynamic_cast<const PeerError*>(&error))
    return {{"status", "failed"},
            {"reason", error.what()},
            {"cause", peer->cause() == PeerError::Cause::late ? "timeout" : "peer"}};
  if (dynamic_cast<const Skip*>(&error) != nullptr) return {{"status", "skipped"}, {"reason", error.what()}};
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return out_of_memory("the host has no memory left");
  const auto* from_torch = dynamic_cast<const c10::Error*>(&error);
  const std::string message = first_lines(from_torch ? from_torch->what_without_backtrace() : error.what());
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr || tells_of_memory(message))
    return out_of_memory(message);
  return {{"status", "failed"}, {"reason", message}, {"cause", "own"}};
}
}  // namespace optrush

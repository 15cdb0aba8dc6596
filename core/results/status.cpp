#include "results/status.h"

#include <array>
#include <utility>

namespace optrush {
namespace {
constexpr std::array<std::string_view, 7> kStatusNames = {"ok",      "oom",     "failed", "crashed",
                                                          "timeout", "skipped", "broken"};
/// By status.
constexpr std::array<ErrorCode, 7> kCodes = {
    ErrorCode::internal, ErrorCode::out_of_memory,       ErrorCode::internal,    ErrorCode::crashed,
    ErrorCode::timeout,  ErrorCode::missing_requirement, ErrorCode::wrong_result};
constexpr std::array<std::string_view, 5> kCauseNames = {"own", "peer", "timeout", "lost", "missing"};
}  // namespace

std::string_view to_string(Status status) { return kStatusNames.at(static_cast<size_t>(status)); }
std::span<const std::string_view> names_of(Status) { return kStatusNames; }
std::string_view to_string(Cause cause) { return kCauseNames.at(static_cast<size_t>(cause)); }
std::span<const std::string_view> names_of(Cause) { return kCauseNames; }

ErrorCode code_of(Status status) { return kCodes.at(static_cast<size_t>(status)); }

ErrorCode code_of(const BadEnd& end) { return end.code.value_or(code_of(end.status)); }

BadEnd failed(const Error& error, std::string reason) {
  return {Status::failed, std::move(reason), error.code(), error.where()};
}
}  // namespace optrush

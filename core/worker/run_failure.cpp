#include "worker/run_failure.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <new>
#include <string_view>
#include <utility>

#include "base/peer_error.h"
#include "optrush/error.h"
#include "results/worker_answer.h"

namespace optrush {
namespace {
/// Messages of LibTorch have a stack trace after their first lines.
std::string first_lines(const std::string& text) {
  return text.substr(0, text.find("\nException raised from"));
}

/// Whether a message of the host's allocator, or of a library with workspaces, reports out of memory.
bool is_out_of_memory(const std::string& message) {
  static constexpr std::array<const char*, 6> kSigns = {
      "can't allocate memory",      "CUDA error: out of memory", "CUDA out of memory",
      "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED", "'out of memory'" /* of NCCL */};
  return std::ranges::any_of(kSigns,
                             [&](const char* sign) { return message.find(sign) != std::string::npos; });
}

std::string message_of(const std::exception& error) {
  const auto* from_torch = dynamic_cast<const c10::Error*>(&error);
  return first_lines(from_torch ? from_torch->what_without_backtrace() : error.what());
}

RunResult out_of_memory(const std::string& message) {
  RunResult result({Status::oom, message});
  result.requested_bytes = requested_bytes(message);
  return result;
}

RunResult failed_by(const std::exception& error, Cause cause) {
  RunResult result(end_of(error));
  result.cause = cause;
  return result;
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

RunResult failure_of(const std::exception& error) {
  if (const auto* peer = dynamic_cast<const PeerError*>(&error))
    return failed_by(error, peer->cause() == PeerError::Cause::late ? Cause::timeout : Cause::peer);
  if (dynamic_cast<const Skip*>(&error) != nullptr) return RunResult(end_of(error));
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return out_of_memory("the host is out of memory");
  const std::string message = message_of(error);
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr || is_out_of_memory(message))
    return out_of_memory(message);
  return failed_by(error, Cause::own);
}

BadEnd end_of(const std::exception& error) {
  const bool skipped = dynamic_cast<const Skip*>(&error) != nullptr;
  BadEnd end{skipped ? Status::skipped : Status::failed, message_of(error)};
  if (const auto* own = dynamic_cast<const Error*>(&error)) {
    end.code = own->code();
    end.where = own->where();
  }
  return end;
}

int answering(const std::filesystem::path& out, const std::function<int()>& command) {
  try {
    return command();
  } catch (const std::exception& e) {
    write_failure(out, end_of(e));
    throw;
  }
}
}  // namespace optrush

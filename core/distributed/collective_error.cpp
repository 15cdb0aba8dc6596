#include "distributed/collective_error.h"

#include <c10/util/Exception.h>
#include <gloo/common/error.h>

#include <algorithm>
#include <array>
#include <new>
#include <system_error>

#include "base/peer_error.h"
#include "base/text.h"
#include "optrush/error.h"

namespace optrush {
namespace {
[[noreturn]] void throw_peer_error(const std::string& what, const std::exception& e) {
  const std::string text = e.what(), line = first_line(text);
  const bool late = text.find("imed out") != std::string::npos || text.find("imeout") != std::string::npos;
  if (late)
    throw PeerError(
        PeerError::Cause::late, what + " timed out, because some ranks did not join (" + line + ")",
        "read the logs of the other ranks; set OPTRUSH_COLLECTIVE_TIMEOUT=SECONDS to wait longer");
  throw PeerError(PeerError::Cause::gone, what + " lost a rank (" + line + ")",
                  "read the log of the rank that failed first");
}

/// Whether an error is of the connection between ranks. NCCL reports own failures by the same class.
bool is_of_connection(const c10::Error& e) {
  static constexpr std::array<const char*, 3> kOwn = {"ncclInvalidArgument", "ncclInvalidUsage",
                                                      "ncclUnhandledCudaError"};
  const std::string text = e.what();
  return dynamic_cast<const c10::DistError*>(&e) != nullptr &&
         std::ranges::none_of(kOwn, [&](const char* own) { return text.find(own) != std::string::npos; });
}
}  // namespace

void call_collective(const std::string& what, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error&) {
    throw;
  } catch (c10::Error& e) {
    if (is_of_connection(e)) throw_peer_error(what, e);
    e.add_context(what);
    throw;
  } catch (const ::gloo::IoException& e) {
    throw_peer_error(what, e);
  } catch (const std::system_error& e) {
    throw_peer_error(what, e);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    throw Error(ErrorCode::invalid_plugin, what + ": " + first_line(e.what()),
                "give every rank's tensors the type, the size and the strides that the collective needs");
  }
}
}  // namespace optrush

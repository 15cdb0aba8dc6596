#pragma once
#include <string>

#include "optrush/error.h"

namespace optrush {
/// A collective failed because of another rank. The cause of the failure is there.
class PeerError : public Error {
 public:
  enum class Cause : uint8_t {
    gone,  ///< the other rank ended, or its connection broke
    late   ///< it did not arrive in time
  };
  PeerError(Cause cause, std::string what, std::string cure = {}, std::string where = {})
      : Error(ErrorCode::rank_lost, std::move(what), std::move(cure), std::move(where)), cause_(cause) {}
  Cause cause() const { return cause_; }

 private:
  Cause cause_;
};
}  // namespace optrush

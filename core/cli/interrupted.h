#pragma once
#include "optrush/error.h"
#include "process/process.h"

namespace optrush {
/// A signal ended the work early. Finished work is kept.
class Interrupted : public Error {
 public:
  Interrupted(int signal, std::string cure)
      : Error(ErrorCode::interrupted, "interrupted by " + describe_signal(signal), std::move(cure)),
        signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};
}  // namespace optrush

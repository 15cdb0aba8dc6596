#pragma once
#include <memory>

#include "check/cases.h"
#include "optrush/error.h"
#include "train/session.h"

namespace optrush {
/// A stack that its plugins rightly refuse: each of them starts elsewhere, and here one says why not.
class Refused : public Error {
 public:
  explicit Refused(const Error& reason) : Error(reason) {}
};

/// Opens `spec`, which is the case's own stack, up to its first step. Where a plugin throws an Error there
/// that it does not throw without the other plugin, or on another model: Refused. Anything else is thrown on.
std::unique_ptr<Session> open_case(const CheckCase&, const RunSpec& spec, at::Device,
                                   const std::function<void(Recipe&)>& edit = {});
/// The same for a spec that no plugin may refuse.
std::unique_ptr<Session> open_run(const RunSpec&, at::Device, const std::function<void(Recipe&)>& edit = {});
}  // namespace optrush

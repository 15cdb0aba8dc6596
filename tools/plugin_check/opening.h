#pragma once
#include <memory>

#include "optrush/error.h"
#include "plugin/description.h"
#include "plugin_check/cases.h"
#include "train/session.h"

namespace optrush {
/// The data that the cases of a check share.
struct CheckContext {
  at::Device device;
  Catalogue catalogue;  ///< of the plugin path of all cases, read once
};

/// Plugins refuse a stack correctly: each of them opens elsewhere, and here one throws an Error with the
/// reason.
class Refused : public Error {
 public:
  explicit Refused(const Error& reason) : Error(reason) {}
};

/// Opens `spec`, which has the stack of the case, up to its first step. Throws Refused if a plugin throws an
/// Error that it does not throw without the other plugin or on another model. Passes other exceptions on.
std::unique_ptr<Session> open_case(const CheckCase&, const RunSpec& spec, const CheckContext&,
                                   const std::function<void(Recipe&)>& edit = {});
/// The same for a spec that plugins must not refuse.
std::unique_ptr<Session> open_run(const RunSpec&, const CheckContext&,
                                  const std::function<void(Recipe&)>& edit = {});
}  // namespace optrush

#include <ATen/autocast_mode.h>

#include <utility>

#include "optrush/scopes.h"
#include "recipe/evaluation_scope.h"

namespace optrush {
namespace {
// State of the thread that runs the forward.
thread_local bool evaluates = false, refers = false, omits_adapters = false;
}  // namespace

bool evaluating() { return evaluates; }
bool of_reference() { return refers; }
bool without_adapters() { return omits_adapters; }

ReferenceScope::ReferenceScope(bool with_adapters)
    : outer_evaluates_(std::exchange(evaluates, true)),
      outer_refers_(std::exchange(refers, true)),
      outer_omits_(std::exchange(omits_adapters, !with_adapters)) {}
ReferenceScope::~ReferenceScope() {
  evaluates = outer_evaluates_;
  refers = outer_refers_;
  omits_adapters = outer_omits_;
}

EvaluationScope::EvaluationScope() : outer_(std::exchange(evaluates, true)) {}
EvaluationScope::~EvaluationScope() { evaluates = outer_; }

Autocast::Autocast(at::DeviceType device, at::ScalarType dtype)
    : device_(device),
      enabled_before_(at::autocast::is_autocast_enabled(device)),
      dtype_before_(at::autocast::get_autocast_dtype(device)) {
  at::autocast::set_autocast_enabled(device, true);
  at::autocast::set_autocast_dtype(device, dtype);
  at::autocast::increment_nesting();
}
Autocast::~Autocast() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, enabled_before_);
  at::autocast::set_autocast_dtype(device_, dtype_before_);
}

std::optional<at::ScalarType> autocast_type(at::DeviceType device) {
  if (!at::autocast::is_autocast_available(device) || !at::autocast::is_autocast_enabled(device)) return {};
  return at::autocast::get_autocast_dtype(device);
}
}  // namespace optrush

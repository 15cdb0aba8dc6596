#include "recipe/evaluation_scope.h"

#include <utility>

#include "optrush/scopes.h"

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
}  // namespace optrush

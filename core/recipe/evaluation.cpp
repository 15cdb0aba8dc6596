#include "recipe/evaluation_scope.h"

#include <utility>

#include "optrush/scopes.h"

namespace optrush {
namespace {
// State of the thread that runs the forward.
thread_local bool evaluates = false, refers = false;
}  // namespace

bool evaluating() { return evaluates; }
bool of_reference() { return refers; }

ReferenceScope::ReferenceScope()
    : outer_evaluates_(std::exchange(evaluates, true)), outer_refers_(std::exchange(refers, true)) {}
ReferenceScope::~ReferenceScope() {
  evaluates = outer_evaluates_;
  refers = outer_refers_;
}

EvaluationScope::EvaluationScope() : outer_(std::exchange(evaluates, true)) {}
EvaluationScope::~EvaluationScope() { evaluates = outer_; }
}  // namespace optrush

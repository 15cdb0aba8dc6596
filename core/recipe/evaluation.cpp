#include "recipe/evaluation_scope.h"

#include <utility>

#include "optrush/evaluation.h"

namespace optrush {
namespace {
thread_local bool evaluates = false;
}  // namespace

bool evaluating() { return evaluates; }

EvaluationScope::EvaluationScope() : outer_(std::exchange(evaluates, true)) {}
EvaluationScope::~EvaluationScope() { evaluates = outer_; }
}  // namespace optrush

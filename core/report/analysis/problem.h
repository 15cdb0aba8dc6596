#pragma once
#include <optional>
#include <string>

#include "results/stored.h"

namespace optrush {
/// What differs between the problems that two variants solve, of one report or of two: "8 instead of
/// 4 sequences per step"; empty where their speeds can be compared outright.
std::string difference_of_problems(const Variant& subject, const std::optional<Plan>& its_plan,
                                   const Variant& reference, const std::optional<Plan>& plan_of_reference);
std::string difference_of_problems(const Stored& of_subject, int64_t subject, const Stored& of_reference,
                                   int64_t reference);
/// Whether one trains another model than the other, or another function or task of it.
bool other_function(const Plan&, const Plan&);
/// Whether two specs train the same thing for the same number of steps.
bool same_work(const RunSpec&, const RunSpec&);
/// Losses of another model, of other data or of other lengths say nothing about each other.
bool same_task(const RunSpec&, const RunSpec&);
}  // namespace optrush

#pragma once
#include <string>

#include "results/stored.h"

namespace optrush {
/// The difference between the problems of two variants, of one report or of two: "8 instead of 4 sequences
/// per step"; empty if their speeds are comparable.
std::string difference_of_problems(const Stored& of_subject, int64_t subject, const Stored& of_reference,
                                   int64_t reference);
/// Whether the two train different models, functions or tasks.
bool other_function(const Plan&, const Plan&);
/// Whether only one of the two freezes a part of the parameters. Their losses then show the choice of what is
/// trained, not an error.
bool other_parameters(const Plan&, const Plan&);
/// Whether two specs train the same thing for the same number of steps.
bool same_work(const RunSpec&, const RunSpec&);
/// Whether losses of two specs are comparable: same model, data and lengths.
bool same_task(const RunSpec&, const RunSpec&);
}  // namespace optrush

#pragma once
#include "experiment/experiment.h"
#include "launch/controller.h"

namespace optrush {
/// Finds the fastest stack (search.h) and measures it as a ladder, the largest gain first. The result is an
/// ordinary report. Everything that was considered is in tried.json and in the reports of the stages, in
/// tried/ below its folder.
RunOutcome search_experiment(const Experiment&, const SearchRequest&, const RunRequest&, Progress&);
}  // namespace optrush

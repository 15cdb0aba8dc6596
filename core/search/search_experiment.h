#pragma once
#include "experiment/search_request.h"
#include "launch/controller.h"

namespace optrush {
/// Finds the fastest stack (search.h) and measures it as a ladder, what pays most first: an ordinary report,
/// with everything that was tried in tried.json and in reports of the stages, in tried/ below its folder.
RunOutcome search_experiment(const Experiment&, const SearchRequest&, const RunRequest&, Progress&);
}  // namespace optrush

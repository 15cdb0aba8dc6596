#pragma once
#include <filesystem>

#include "launch/ranks/ranks.h"

namespace optrush {
/// The result of a run whose ranks have all ended: rank 0's if all succeeded, otherwise one that names the
/// rank that failed first. It is stored as the run folder's result.json, which no other code writes.
RunResult conclude_ranks(const std::filesystem::path& run_folder, const RanksEnd&, const Job&,
                         const RankLimits&);
}  // namespace optrush

#pragma once
#include <cstdint>
#include <string>

namespace optrush {
/// How the values of a run's ranks become the one that the report shows.
enum class OverRanks : uint8_t { sum, mean, max };
/// Of what a counter's number is: `run`, what it reads at the end; `step`, what the timed steps added,
/// divided by their number.
enum class Per : uint8_t { run, step };

/// A number that a plugin tells of a run: a column of the report. A plugin has 16 at most.
struct Counter {
  std::string name;  ///< "moved to the host": one line of 1 to 40 bytes, once a plugin
  std::string unit;  ///< "bytes", "s", "gathers"; up to 16 bytes, empty where the name says it
  Per per = Per::run;
  OverRanks over_ranks = OverRanks::sum;
};
}  // namespace optrush

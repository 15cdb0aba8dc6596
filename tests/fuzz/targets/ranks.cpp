// The environment of a training rank: lines NAME=VALUE, and STORE=HOST:PORT for --store.
#include "distributed/ranks.h"

#include <cstdlib>
#include <map>
#include <sstream>

#include "target.h"

FUZZ_TARGET(ranks) {
  using namespace optrush;
  constexpr const char* kNames[] = {"RANK",        "WORLD_SIZE",  "LOCAL_RANK", "LOCAL_WORLD_SIZE",
                                    "MASTER_ADDR", "MASTER_PORT", "STORE",      "OPTRUSH_COLLECTIVE_TIMEOUT"};
  for (const char* name : kNames) ::unsetenv(name);
  std::istringstream lines(fuzz::text_of(data, size));
  for (std::string line; std::getline(lines, line);)
    for (const char* name : kNames)
      if (const std::string start = std::string(name) + "="; line.starts_with(start))
        ::setenv(name, line.c_str() + start.size(), 1);
  fuzz::feed([&] {
    constexpr int64_t kRanks = 4;
    Ranks ranks = Ranks::from_environment(kRanks);
    if (const char* store = std::getenv("STORE")) ranks.meet_at(store);
    fuzz::hold(ranks.size == kRanks && ranks.rank >= 0 && ranks.rank < kRanks, "a rank is one of the run's");
    fuzz::hold(ranks.local_rank >= 0 && ranks.local_size > 0, "a place on the machine is one");
    fuzz::hold(ranks.port > 0 && !ranks.host.empty(), "the ranks have a place to meet");
    fuzz::hold(ranks.timeout.count() > 0, "a collective has time");
  });
  return 0;
}

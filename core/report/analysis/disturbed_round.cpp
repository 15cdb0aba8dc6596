#include "report/analysis/disturbed_round.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/suggest.h"
#include "report/numbers/format.h"
#include "report/numbers/statistics.h"

namespace optrush {
std::vector<DisturbedRound> disturbed_rounds(const std::vector<Row>& rows) {
  constexpr double kFactor = 2;
  std::vector<DisturbedRound> all;
  std::map<int64_t, std::vector<double>> of_round;
  for (const Row& row : rows) {
    if (row.same_as >= 0 || row.samples.size() < kMinRounds || row.samples.size() != row.rounds.size())
      continue;
    const double usual = median(row.samples).value();
    if (!(usual > 0)) continue;
    for (size_t i = 0; i < row.samples.size(); ++i) {
      all.push_back({row.name, row.rounds[i], row.samples[i] / usual});
      of_round[row.rounds[i]].push_back(all.back().speed);
    }
  }
  std::map<int64_t, double> usual_of_round;
  for (auto& [round, speeds] : of_round) usual_of_round[round] = median(std::move(speeds)).value();
  for (DisturbedRound& each : all) each.speed /= usual_of_round.at(each.round);
  std::erase_if(
      all, [](const DisturbedRound& each) { return each.speed * kFactor >= 1 && each.speed <= kFactor; });
  return all;
}

std::string disturbed_warning(const std::vector<DisturbedRound>& rounds) {
  if (rounds.empty()) return {};
  constexpr size_t kNamed = 4;
  std::vector<std::string> names;
  for (const auto& each : rounds) {
    if (names.size() == kNamed) {
      names.push_back(std::to_string(rounds.size() - kNamed) + " more");
      break;
    }
    names.push_back("round " + std::to_string(each.round + 1) + " of " + name_in_text(each.row) + " (" +
                    fixed(each.speed, 2) + " times its speed in the other rounds)");
  }
  return "The machine was disturbed in " + join(names) +
         ". The ratios and intervals of these rows depend on it. Run more rounds (--resume --rounds N), or "
         "measure again on a quiet machine.";
}
}  // namespace optrush

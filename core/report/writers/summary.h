#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/analysis.h"
#include "spec/record.h"

namespace optrush {
/// A ratio of speeds.
struct SummaryRatio {
  double value = 1;
  std::optional<double> low, high;  ///< ends of the interval
  std::string verdict;
  bool like_for_like = true;
};

struct SummaryRung {
  std::string rung;
  Status status = Status::ok;
  std::string loss_check;
  std::optional<double> tokens_per_second, peak_memory_bytes;
  std::optional<SummaryRatio> vs_previous, vs_base;
  std::optional<double> memory_vs_base;
};

/// The summary of a report for programs: the answer, and the table of rungs.
struct Summary {
  int64_t schema_version = 1;
  std::string experiment, label, headline, badge, date, commit, machine;
  bool ok = true;
  std::vector<std::string> warnings;
  std::vector<SummaryRung> rungs;
};
Summary summary_of(const Analysis&);
/// The fields of summary.json.
Record<Summary> record_of(const Summary*);
/// The content of summary.txt: "quickstart: 1.96x as fast, 54 % less memory; 5 of 5 rungs ok".
std::string summary_line(const Summary&);
}  // namespace optrush

#pragma once
#include <string>
#include <vector>

#include "report/sections/document.h"

namespace optrush {
/// A chart as data. scripts/charts draws it, with one module per kind.
struct Chart {
  std::string name;  ///< "speed-ablation": speed-ablation.svg
  std::string kind;  ///< "speed"
  Json data;
  std::string note;  ///< what it leaves out: "the first and the 59 fastest of 1,000 rungs"; usually ""
};
/// The non-empty charts in the order of the report: speed, scaling, grid, roofline, memory, loss, loss over
/// time, phases, throughput. With more than 60 rungs they show the first and the fastest, and with more than
/// 1,000 steps evenly spaced ones.
std::vector<Chart> charts_of(const Analysis&);
}  // namespace optrush

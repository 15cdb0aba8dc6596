#pragma once
#include <string>
#include <vector>

#include "report/sections/document.h"

namespace optrush {
/// What a chart shows, as data; scripts/charts draws it, each kind in a module of its own.
struct Chart {
  std::string name;  ///< "speed-ablation": speed-ablation.svg
  std::string kind;  ///< "speed"
  Json data;
  std::string note;  ///< what it leaves out: "the first and the 59 fastest of 1,000 rungs"; mostly ""
};
/// speed, scaling, grid, roofline, memory, loss, loss over time, phases, throughput: those that have
/// something to show, in the order of the report. Of more than 60 rungs they show the first and the fastest,
/// and of more than 1,000 steps evenly spaced ones.
std::vector<Chart> charts_of(const Analysis&);
}  // namespace optrush

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
};
/// speed, scaling, grid, roofline, memory, loss, loss over time, phases, throughput: those that have
/// something to show, in the order of the report.
std::vector<Chart> charts_of(const Analysis&);
}  // namespace optrush

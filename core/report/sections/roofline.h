#pragma once
#include <optional>
#include <string>
#include <vector>

#include "report/sections/document.h"

namespace optrush {
/// The two measured limits of the machine: FLOP/s of a matrix product in one dtype, and bytes per second.
struct Roof {
  double flops = 0, bandwidth = 0;
  /// FLOPs per byte from which arithmetic is the limit.
  double ridge() const { return flops / bandwidth; }
  double at(double intensity) const;
};
/// None if the machine was not measured.
std::optional<Roof> roof_of(const Json& context, const std::string& dtype);

/// A phase of a row with known work.
struct RooflinePoint {
  const Row* row = nullptr;
  std::string phase, dtype;
  double intensity = 0, flops = 0;  ///< FLOPs per byte; reached FLOP/s
  Roof roof;

  bool memory_bound() const { return intensity < roof.ridge(); }
  double share() const { return flops / roof.at(intensity); }
};
std::vector<RooflinePoint> roofline_points(const Analysis&);

/// The limit of each phase, and how close the phase is to it.
Section roofline_section(const Analysis&);
}  // namespace optrush

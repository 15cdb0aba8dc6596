#pragma once
#include <optional>
#include <string>
#include <vector>

#include "report/sections/document.h"

namespace optrush {
/// The machine's two limits, as it measured them: FLOP/s of a matmul in one dtype, and bytes a second.
struct Roof {
  double flops = 0, bandwidth = 0;
  /// FLOPs per byte from which on arithmetic is the limit.
  double ridge() const { return flops / bandwidth; }
  double at(double intensity) const;
};
/// None where the machine was not measured.
std::optional<Roof> roof_of(const Json& context, const std::string& dtype);

/// A phase of a row that says what it has to do.
struct RooflinePoint {
  const Row* row = nullptr;
  std::string phase, dtype;
  double intensity = 0, flops = 0;  ///< FLOPs per byte; FLOP/s reached
  Roof roof;

  bool memory_bound() const { return intensity < roof.ridge(); }
  double share() const { return flops / roof.at(intensity); }
};
std::vector<RooflinePoint> roofline_points(const Analysis&);

/// Which limit each phase is under, and how near.
Section roofline_section(const Analysis&);
}  // namespace optrush

#pragma once
#include <string>
#include <vector>

#include "mesh_plan/hardware.h"
#include "mesh_plan/mix.h"

namespace optrush {
/// A training speed that others published, with the settings that it was reached with.
struct PublishedRun {
  std::string source;  ///< repository and file
  std::string model;   ///< its name there
  std::string hardware;
  std::string note;  ///< what its settings have that the projection lacks, or the other way round
  TrainingProblem problem;
  int64_t devices = 1;
  Mix mix;                       ///< of one device where it was not published: the best one is taken
  double tokens_per_second = 0;  ///< of one device

  bool has_mix() const { return mix.devices() == devices; }
};
const std::vector<PublishedRun>& published_runs();
}  // namespace optrush

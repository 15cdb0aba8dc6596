#pragma once
#include <string>
#include <vector>

#include "mesh_plan/hardware.h"
#include "mesh_plan/mesh_plan.h"
#include "mesh_plan/parallel_config.h"

namespace optrush::mesh_plan {
/// A published training speed with its settings.
struct PublishedRun {
  std::string source;  ///< repository and file
  std::string model;   ///< its name in the source
  std::string hardware;
  std::string note;  ///< the differences between its settings and the projection's
  TrainingProblem problem;
  int64_t devices = 1;
  ParallelConfig mix;            ///< one device if the mix was not published: the best mix is taken
  double tokens_per_second = 0;  ///< of one device

  bool has_config() const { return mix.devices() == devices; }
};
const std::vector<PublishedRun>& published_runs();

/// The best mix of a number of devices; empty if nothing fits.
struct ProjectedSize {
  std::string model;
  int64_t devices = 1;
  MeshPlan plan;
};

/// A published figure, and the estimate of a step with the same settings.
struct ProjectedRun {
  const PublishedRun* published = nullptr;
  ParallelConfig mix;
  double tokens_per_second = 0;  ///< of one device; 0 if no mix fits
  /// Projected over published, minus one.
  double error() const { return tokens_per_second / published->tokens_per_second - 1; }
};

/// Llama 3.1 8B and 70B on 8 to 4,096 devices. `problem` gives all but the model.
std::vector<ProjectedSize> project_sizes(const TrainingProblem& problem, const Hardware&);
/// Each published run with its own settings.
std::vector<ProjectedRun> project_published();
}  // namespace optrush::mesh_plan

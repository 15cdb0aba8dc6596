#pragma once
#include "analysis/analysis.h"
#include "mesh_plan/hardware.h"
#include "mesh_plan/parallel_config.h"

namespace optrush::mesh_plan {
/// True if the row completed a training of a decoder with given dimensions in the host.
bool trained_decoder(const Analysis&, const Row&);
/// The training of one row, as a problem and a configuration. Throws an Error if it trained no decoder.
struct MeasuredConfig {
  TrainingProblem problem;
  ParallelConfig mix;
};
MeasuredConfig measured_config(const Analysis&, const Row&);

/// The machine of a report: memory, bandwidth and matmul peak of its context. If rows of one device trained a
/// decoder, the fastest of them gives the speed of a whole step, in its types.
Hardware measured_hardware(const Analysis&, Precision);
/// The machine with the speed of one row of one device: FLOP/s from its forward and backward, bytes per
/// second from its optimizer.
Hardware reached_by(const Analysis&, const Row&, Hardware);
/// The link between the ranks of a report of collectives (experiments/interconnect.lua): the largest bus
/// bandwidth, and the shortest time of an all-reduce divided by its hops. Throws an Error without a
/// collective.
void set_measured_link(const Analysis&, Hardware&);
}  // namespace optrush::mesh_plan

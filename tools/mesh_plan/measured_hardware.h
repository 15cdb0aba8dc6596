#pragma once
#include "mesh_plan/hardware.h"
#include "mesh_plan/parallel_config.h"
#include "report/analysis/analysis.h"

namespace optrush::mesh_plan {
/// Whether a row of the host trained a decoder, given by its dimensions, to the end.
bool trained_decoder(const Analysis&, const Row&);
/// The training of one row, as a problem and a configuration. Throws an Error if it trained no decoder.
struct MeasuredConfig {
  TrainingProblem problem;
  ParallelConfig mix;
};
MeasuredConfig measured_config(const Analysis&, const Row&);

/// The machine of a report: memory, bandwidth and matmul peak of its context. Where a row of one device
/// trained a decoder, the fastest such row says what a whole step reaches, in whatever types it has.
Hardware measured_hardware(const Analysis&, Precision);
/// The same with what one row of one device reached: FLOP/s from its forward and backward, bytes a second
/// from its optimizer.
Hardware reached_by(const Analysis&, const Row&, Hardware);
/// The link between the ranks of a report of collectives alone (experiments/interconnect.lua): the largest
/// bus bandwidth, and an all-reduce's shortest time over its hops. An Error where there is none.
void set_measured_link(const Analysis&, Hardware&);
}  // namespace optrush::mesh_plan

#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spec/record.h"

namespace optrush {
/// The result of one rank of a run with several ranks. Seconds are medians over the timed steps; sent bytes
/// are per step.
struct RankResult {
  int64_t rank = 0;
  std::string host, device;
  std::optional<double> step_seconds;     ///< of the whole step
  std::optional<double> busy_seconds;     ///< without exposed communication
  std::optional<double> exposed_seconds;  ///< communication that is not overlapped with computation
  std::optional<double> peak_allocated, peak_reserved, process;  ///< bytes, as in Memory
  std::optional<double> parts;                                   ///< the total of Memory::parts
  std::optional<double> sent_bytes;
};

/// Cost per step of one kind of collective on rank 0, over one dimension of the mesh.
struct Collective {
  std::string name, group;
  int64_t ranks = 1;
  std::optional<double> calls;
  std::optional<double> bytes;         ///< size of the tensors
  std::optional<double> sent_bytes;    ///< sent by this rank
  std::optional<double> theory_bytes;  ///< sent by an optimal algorithm
};

const Record<RankResult>& record_of(const RankResult*);
const Record<Collective>& record_of(const Collective*);
}  // namespace optrush

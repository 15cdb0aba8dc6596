#pragma once
#include <cstdint>
#include <vector>

namespace optrush::pipeline_parallel {
/// The schedule of a rank of the pipeline.
enum class Schedule : uint8_t {
  gpipe,        ///< all forwards, then all backwards (arXiv:1811.06965)
  one_f_one_b,  ///< a backward as soon as possible (PipeDream-Flush; arXiv:2104.04473, figure 4, top)
  interleaved,  ///< the same with several chunks a rank (arXiv:2104.04473, figure 4, bottom)
  zero_bubble   ///< gradients of weights fill the waits (ZB-H1; arXiv:2401.10241, figure 2)
};

/// `backward` includes the gradients of weights, except in a zero-bubble schedule, in which `weights`
/// follows.
enum class Work : uint8_t { forward, backward, weights };

struct Action {
  Work work = Work::forward;
  int64_t chunk = 0;  ///< of this rank
  int64_t micro = 0;
  bool operator==(const Action&) const = default;
};

/// A pipeline: `ranks` with `chunks` each. Stage s, of ranks x chunks, is chunk s / ranks of rank s % ranks.
struct Shape {
  Schedule schedule = Schedule::one_f_one_b;
  int64_t ranks = 1, chunks = 1, micros = 1;

  int64_t stages() const { return ranks * chunks; }
  int64_t stage_of(int64_t rank, int64_t chunk) const { return chunk * ranks + rank; }
};

/// The actions of a rank in a step, in order. Interleaved schedules need a multiple of `ranks` micro-batches.
std::vector<Action> order_of(const Shape&, int64_t rank);
}  // namespace optrush::pipeline_parallel

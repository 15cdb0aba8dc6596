#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "train/session.h"

namespace optrush {
/// Records the bytes of tensors after each timed step and finds steady growth. Such a leak ends a long run.
class MemoryGrowth {
 public:
  void after_step(int64_t bytes) { bytes_.push_back(bytes); }
  /// Average growth per step in bytes; none if memory does not keep growing. With eight steps or more, every
  /// quarter must be above the one before; with fewer, every step must add the same amount.
  std::optional<double> per_step() const;

 private:
  std::vector<int64_t> bytes_;
};

/// Counts how many elements an update changes in parameters of 16 bits or fewer whose optimizer keeps no
/// wider copy. There, a change below half of the last bit is lost each time. It watches a few updates of a
/// run, and at most 1,024 elements per parameter. The host does not wait for a device before warning().
class MovedElements {
 public:
  explicit MovedElements(Session& session) : session_(session) {}

  /// Called before and after a watched update.
  void before();
  void after();
  /// The warning; "" if updates change most elements. All ranks must call it together, and only rank 0 gets a
  /// text. Embeddings are left out, because a step changes only the rows of its tokens.
  std::string warning() const;

 private:
  enum Kind : size_t { vectors, matrices, kKinds };
  struct Watched {
    Kind kind;
    Tensor elements, before;
  };
  struct Count {
    int64_t elements = 0;
    Tensor moved;  ///< on the device
  };
  Session& session_;
  std::vector<Watched> watched_;
  std::array<Count, kKinds> counts_;
  std::string type_;  ///< for example "bf16"
  int64_t updates_ = 0;
};

/// Watches timed steps for reasons to doubt a result: growing memory and updates without effect.
class StepWatch {
 public:
  explicit StepWatch(Session& session) : session_(session), moved_(session) {}

  /// Called before and after step `i` of `timed` steps, counted from 0.
  void before(int64_t i, int64_t timed);
  void after(int64_t i, int64_t timed);
  /// Called after the last step.
  void warn() const;

 private:
  /// Whether the update of this step is watched: a few, spread over the timed steps.
  bool looks_at_update(int64_t i, int64_t timed) const;
  bool is_measured() const { return session_.spec().purpose == Purpose::measure; }

  Session& session_;
  MovedElements moved_;
  MemoryGrowth host_memory_, device_memory_;  ///< over the steps of this process
};
}  // namespace optrush

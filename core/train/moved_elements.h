#pragma once
#include <array>
#include <string>
#include <vector>

#include "train/session.h"

namespace optrush {
/// Counts how many elements an update changes in parameters of 16 bits or fewer whose optimizer keeps no
/// wider copy. There, a change below half of the last bit is lost each time. It watches a few updates of a
/// run, and at most 1,024 elements per parameter, so that the peak memory does not change. The host does not
/// wait for a device before warning().
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
}  // namespace optrush

#pragma once
#include <array>
#include <string>
#include <vector>

#include "train/session.h"

namespace optrush {
/// How many elements an update changes of parameters in 16 bits or fewer whose optimizer keeps no more bits:
/// a change below half of their last bit is lost, however often it is made. A few updates of a run are
/// watched, and of each parameter 1,024 elements at most, so that a peak of
/// memory knows nothing of them. No host waits for a device before warning().
class MovedElements {
 public:
  explicit MovedElements(Session& session) : session_(session) {}

  /// Around an update that is watched.
  void before();
  void after();
  /// The warning; empty if updates change most elements. All ranks call it together, and rank 0 alone gets a
  /// text. Embeddings are left out: a step changes only the rows of its own tokens.
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
  std::string type_;  ///< "bf16"
  int64_t updates_ = 0;
};
}  // namespace optrush

#pragma once
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "optrush/run.h"
#include "optrush/shard.h"

namespace optrush::muon {
/// A matrix inside of the model, from features to features: neither an embedding nor the head, whose rows are
/// tokens.
bool is_hidden_matrix(const Param&);

/// This rank's part of a matrix: elements of `layout` of its direction and of its values, both flat.
struct Part {
  Layout layout;
  Tensor direction, data;
};
using Parts = std::unordered_map<const Param*, Part>;

/// Matrices of one shape that ranks update together: each of them orthogonalizes one, and sends the others
/// the result.
struct Round {
  std::vector<const Param*> matrices;  ///< that of rank r is the r-th; the last ranks may have none
  Group* group = nullptr;
  Mesh::Names dims;                     ///< of that group
  bool cut = false;                     ///< ranks have parts of the matrices; else each has them whole
  at::ScalarType sent_as = at::kFloat;  ///< both ways
  at::Device device = at::kCPU;

  /// Bytes that a rank sends to collect its matrix, and as many to spread the result.
  double bytes() const;
};

/// Of the matrices that ranks have parts of, and, where those that have copies `share` the work, of the
/// others. The same on every rank of a group. Each of them has to ask.
std::vector<Round> make_rounds(Run&, bool share);

/// One after the other; while one is orthogonalized, the next one is on its way here and the last one on its
/// way back. `orthogonalize` gets a matrix that may be zeros; `take` gets each result, whole, on every rank.
void run_rounds(std::span<const Round> rounds, const Parts& parts,
                const std::function<Tensor(const Param&, const Tensor& matrix)>& orthogonalize,
                const std::function<void(const Param&, const Tensor& orthogonal)>& take);
}  // namespace optrush::muon

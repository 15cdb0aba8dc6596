#pragma once
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "optrush/run.h"
#include "optrush/shard.h"

namespace optrush::muon {
/// Whether a matrix maps features to features. Rows of an embedding or a head are tokens.
bool is_hidden_matrix(const Param&);

/// This rank's part of a matrix: the elements in `layout` of its direction and of its values, both flat.
struct Part {
  Layout layout;
  Tensor direction, data;
};
using Parts = std::unordered_map<const Param*, Part>;

/// Matrices of one shape that ranks update together. Each rank orthogonalizes one and sends the result to the
/// others.
struct Round {
  std::vector<const Param*> matrices;  ///< by rank; the last ranks may have none
  Group* group = nullptr;
  Mesh::Names dims;                     ///< of the group
  bool cut = false;                     ///< ranks have parts of the matrices; otherwise whole ones
  at::ScalarType sent_as = at::kFloat;  ///< in both directions
  at::Device device = at::kCPU;

  /// Bytes that a rank sends to collect its matrix. Spreading the result sends as many.
  double bytes() const;
};

/// The rounds of all matrices that ranks have parts of. With `share`, also of matrices that ranks have copies
/// of. Collective: every rank of a group calls it and gets the same rounds.
std::vector<Round> make_rounds(Run&, bool share);

/// Runs rounds one after the other. While one is orthogonalized, the next one is collected and the last one
/// is spread. `orthogonalize` gets a matrix that may be zeros. `take` gets each whole result on every rank.
void run_rounds(std::span<const Round> rounds, const Parts& parts,
                const std::function<Tensor(const Param&, const Tensor& matrix)>& orthogonalize,
                const std::function<void(const Param&, const Tensor& orthogonal)>& take);
}  // namespace optrush::muon

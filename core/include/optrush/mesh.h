#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "optrush/group.h"

namespace optrush {
/// What differs between the ranks along a mesh dimension: neither data nor layers (they share the parameters
/// of the same layers), what they train on, or which layers they have.
enum class Splits : uint8_t { nothing, batch, sequence, layers };

/// Named dimensions over the ranks of a run. apply() declares them; the batch dimension "dp" takes the ranks
/// that are left. Where a dimension is absent its size is 1 and the rank 0, so nobody has to ask "is this
/// distributed?".
class Mesh {
 public:
  using Names = std::vector<std::string>;
  struct Dim {
    std::string name;
    int64_t size = 1;
    Splits splits = Splits::nothing;
    /// Ranks that are neighbours along a dimension of greater nearness lie closer together: in one machine
    /// before across machines. "dp" has 20.
    int64_t nearness = 0;
  };

  Mesh();
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  /// In apply(). An Error where the name is taken by another size.
  void dim(Dim);

  int64_t size(std::string_view dim) const;
  int64_t rank(std::string_view dim) const;
  /// The ranks along several dimensions taken as one, as their group counts them.
  int64_t size(const Names& dims) const;
  int64_t rank(const Names& dims) const;
  const std::vector<Dim>& dims() const { return dims_; }  ///< outermost first
  Names all() const;
  /// The dimensions that split the batch: which ranks train on other sequences.
  Names batch() const;
  /// The dimensions that split the sequence: which ranks train on other positions of the same sequences.
  Names sequence() const;
  /// The dimensions that split batch or sequence: gradients, losses and token counts sum over them.
  Names data() const;
  /// The dimensions along which ranks have other layers, so that none has a part of another's parameters.
  Names layers() const;
  int64_t world_size() const { return world_size_; }
  int64_t world_rank() const { return world_rank_; }

  /// The ranks that differ along `dims` only. After Event::meshed; every one of them has to ask.
  Group& group(const Names& dims) const;

 private:
  friend class Session;
  /// Fixes every size and this rank's place. An Error where the ranks can't fill the dimensions.
  void settle(int64_t world_rank, int64_t world_size);
  size_t index_of(std::string_view dim) const;
  int64_t coordinate(size_t dim, int64_t world_rank) const;

  std::vector<Dim> dims_;
  int64_t world_rank_ = 0, world_size_ = 1;
  std::unique_ptr<class Groups> groups_;
};
}  // namespace optrush

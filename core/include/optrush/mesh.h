#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

namespace c10d {
class ProcessGroup;
class Store;
}  // namespace c10d

namespace optrush {
/// What differs between the ranks along a mesh dimension.
enum class Splits : uint8_t { nothing, batch, sequence };

/// Named dimensions over the ranks of a run. apply() declares them; the batch dimension "dp" takes the ranks
/// that are left. Where a dimension is absent its size is 1 and the rank 0, so nobody has to ask "is this
/// distributed?".
class Mesh {
 public:
  struct Dim {
    std::string name;
    int64_t size = 1;
    Splits splits = Splits::nothing;
  };

  Mesh();
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  /// In apply(). An Error where the name is taken by another size.
  void dim(std::string name, int64_t size, Splits);
  int64_t size(std::string_view dim) const;
  int64_t rank(std::string_view dim) const;
  /// Names of the dimensions that split batch or sequence: gradients and token counts sum over them.
  std::vector<std::string> data() const;
  int64_t data_size() const;
  int64_t world_size() const;
  int64_t world_rank() const;
  const std::vector<Dim>& dims() const { return dims_; }
  /// The group of the ranks that differ along `dims` only, flattened. After Event::meshed.
  c10d::ProcessGroup& group(const std::vector<std::string>& dims) const;

  /// Sums `tensor` in place over the ranks along `dims`; nothing happens where there is one.
  void sum(at::Tensor& tensor, const std::vector<std::string>& dims) const;

  /// By the host: fixes every size and this rank's place. Ranks count along the last dimension first; the
  /// order of dimensions is pp, dp, cp, tp (neighbours share the fastest links), then others by name.
  void settle(int64_t world_rank, int64_t world_size);
  /// By the host: where groups meet. Not needed for one rank.
  void connect(c10::intrusive_ptr<c10d::Store>);

 private:
  struct Groups;
  size_t index_of(std::string_view dim) const;
  int64_t coordinate(size_t dim, int64_t world_rank) const;
  std::vector<Dim> dims_;
  int64_t world_rank_ = 0, world_size_ = 1;
  std::unique_ptr<Groups> groups_;
};
}  // namespace optrush

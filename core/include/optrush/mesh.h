#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "optrush/tensor.h"

namespace c10d {
class ProcessGroup;
}

namespace optrush {
/// A collective in progress. The tensors of the call must not be used before wait(), and live until then.
class WorkHandle {
 public:
  WorkHandle() = default;
  /// Waits until the result is available: to the host on a CPU, to the current stream on a GPU. The time is
  /// exposed communication. Throws an Error if a rank ended or is late. A second call has no effect.
  void wait();
  /// Whether wait() would return at once.
  bool done() const;
  /// Whether a collective is in progress.
  bool under_way() const { return state_ != nullptr; }

 private:
  friend class Group;
  struct State;
  std::shared_ptr<State> state_;
};

/// The ranks that differ along some dimensions of the mesh, and their collectives. All communication of a run
/// uses groups: it is counted, has a timeout, and its errors name the group. A group of one rank sends
/// nothing. In a forecast nothing is sent, and results have sizes only. Under a compiler's tracer a call
/// throws an Error: use all_reduced().
class Group {
 public:
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  const std::string& name() const;  ///< "dp", "dp+cp", "world"
  int64_t size() const;
  int64_t rank() const;

  /// Sums in place over the ranks; bf16 and fp16 are summed in their own type by the backend.
  WorkHandle all_reduce(const Tensor& tensor);
  /// Maximum over the ranks, in place.
  WorkHandle all_reduce_max(const Tensor& tensor);
  /// `out`, size() times as large as `in`, receives the ranks' `in` in order. `in` may be a part of `out`.
  WorkHandle all_gather(const Tensor& out, const Tensor& in);
  /// `out` receives this rank's part of the sum of `in` over the ranks; `in` has size() x its elements. If
  /// `out` has a wider type, a CPU sums in that type.
  WorkHandle reduce_scatter(const Tensor& out, const Tensor& in);
  /// Part r of `in` is sent to rank r; part r of `out` is received from rank r.
  WorkHandle all_to_all(const Tensor& out, const Tensor& in);
  /// The same with parts of unequal size. Parts are rows, entries of the first axis: `to`[r] rows of `in` go
  /// to rank r, and `from`[r] rows of `out` come from it.
  WorkHandle all_to_all(const Tensor& out, const std::vector<int64_t>& from, const Tensor& in,
                        const std::vector<int64_t>& to);
  WorkHandle broadcast(const Tensor& tensor, int64_t from);
  WorkHandle send(const Tensor& tensor, int64_t to);
  WorkHandle receive(const Tensor& tensor, int64_t from);
  /// Sends `in` to one rank and receives `out` from the same or another rank, in one call. On a GPU, ranks
  /// that all send before they receive would deadlock. Counted as "send".
  WorkHandle exchange(const Tensor& out, int64_t from, const Tensor& in, int64_t to);

  /// The sum over the ranks as an operator: under a tracer it is a node of the graph
  /// (optrush::all_reduce). It has no derivative.
  Tensor all_reduced(const Tensor& tensor);

  /// For libraries that use a process group directly (c10d's Reducer). Their traffic is not counted.
  c10d::ProcessGroup& process_group();

 private:
  friend class Groups;
  struct State;
  explicit Group(std::unique_ptr<State>);
  std::unique_ptr<State> state_;
};

/// Difference between the ranks along a mesh dimension: nothing (they shard parameters of the same layers on
/// the same data), the sequences of the batch, the positions of a sequence, or the layers.
enum class Splits : uint8_t { nothing, batch, sequence, layers };

/// Named dimensions over the ranks of a run. apply() declares them; the batch dimension "dp" has the
/// remaining ranks. An absent dimension has size 1 and rank 0, so code needs no special case for one device.
class Mesh {
 public:
  using Names = std::vector<std::string>;
  struct Dim {
    std::string name;
    int64_t size = 1;
    Splits splits = Splits::nothing;
    /// Neighbours along a dimension of greater nearness are closer together. "dp" has 20.
    int64_t nearness = 0;
  };

  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  /// Declares a dimension, in apply(). Throws an Error if the name exists with a different size.
  void dim(Dim);

  int64_t size(std::string_view dim) const;
  int64_t rank(std::string_view dim) const;
  /// Size and rank of several dimensions combined, as in their group.
  int64_t size(const Names& dims) const;
  int64_t rank(const Names& dims) const;
  const std::vector<Dim>& dims() const { return dims_; }  ///< outermost first
  Names all() const;
  /// The dimensions whose ranks train on different sequences.
  Names batch() const;
  /// The dimensions whose ranks train on different positions of the same sequences.
  Names sequence() const;
  /// The dimensions that split batch or sequence: gradients, losses and token counts sum over them.
  Names data() const;
  /// The dimensions whose ranks have different layers, and so no parameters in common.
  Names layers() const;
  int64_t world_size() const { return world_size_; }
  int64_t world_rank() const { return world_rank_; }

  /// The group of ranks that differ along `dims` only. Available from Event::mesh_initialized on; all its
  /// ranks must call it.
  Group& group(const Names& dims) const;

 protected:
  Mesh();
  ~Mesh();

  size_t index_of(std::string_view dim) const;
  int64_t coordinate(size_t dim, int64_t world_rank) const;

  std::vector<Dim> dims_;
  int64_t world_rank_ = 0, world_size_ = 1;
  std::unique_ptr<class Groups> groups_;
};
}  // namespace optrush

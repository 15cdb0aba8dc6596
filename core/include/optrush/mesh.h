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
/// A collective under way. The tensors of the call must not be touched before wait(); they live until then.
class WorkHandle {
 public:
  WorkHandle() = default;
  /// The result is there: for the host on a CPU, for the current stream on a GPU. Time that passes here is
  /// exposed communication. An Error names collective and group where a rank went away or is late. Nothing
  /// happens the second time.
  void wait();
  /// Whether wait() would return at once.
  bool done() const;
  /// Whether there is something to wait for.
  bool under_way() const { return state_ != nullptr; }

 private:
  friend class Group;
  struct State;
  std::shared_ptr<State> state_;
};

/// The ranks that differ along some dimensions of the mesh, and what they send each other. Every byte that a
/// run sends goes through here: it is counted, has a limit of time, and an error names the group. A group of
/// one rank sends nothing. In a forecast nothing is sent, and results have sizes only. Under a compiler's
/// tracer a call is an Error: use all_reduced().
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
  /// The largest, in place.
  WorkHandle all_reduce_max(const Tensor& tensor);
  /// `out`, of size() x numel of `in`, gets the ranks' `in` one after the other. `in` may be this rank's part
  /// of `out`.
  WorkHandle all_gather(const Tensor& out, const Tensor& in);
  /// `out` gets this rank's part of the sum over the ranks of `in`, which has size() x its numel. Where `out`
  /// is of a wider type, sums are made in that type on a CPU.
  WorkHandle reduce_scatter(const Tensor& out, const Tensor& in);
  /// Part r of `in` goes to rank r; part r of `out` comes from there.
  WorkHandle all_to_all(const Tensor& out, const Tensor& in);
  WorkHandle broadcast(const Tensor& tensor, int64_t from);
  WorkHandle send(const Tensor& tensor, int64_t to);
  WorkHandle receive(const Tensor& tensor, int64_t from);
  /// Sends `in` to one rank and receives `out` from one, the same or another, in one call: ranks that all
  /// send before they receive would wait for each other on a GPU. Counts as "send".
  WorkHandle exchange(const Tensor& out, int64_t from, const Tensor& in, int64_t to);

  /// The sum over the ranks as an operator: under a tracer it is a node of the graph
  /// (_c10d_functional::all_reduce). It has no derivative of its own.
  Tensor all_reduced(const Tensor& tensor);

  /// For libraries that drive a group themselves (c10d's Reducer). What they send through it is not counted.
  c10d::ProcessGroup& process_group();

 private:
  friend class Groups;
  struct State;
  explicit Group(std::unique_ptr<State>);
  std::unique_ptr<State> state_;
};

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

  /// The ranks that differ along `dims` only. After Event::mesh_initialized; every one of them has to ask.
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

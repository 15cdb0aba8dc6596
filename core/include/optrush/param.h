#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "optrush/tensor.h"

namespace optrush {
/// Storage form of a parameter, for example NF4. Sharding, gathering and saving see the encoded tensors,
/// operators the decoded value.
class Codec {
 public:
  virtual ~Codec() = default;
  virtual Tensors encode(const Tensor& local) const = 0;
  virtual Tensor decode(const Tensors& stored) const = 0;
  /// Elements that a shard must not cut.
  virtual int64_t alignment() const { return 1; }
};

/// This rank holds [begin, end) of the logical axis `axis`, because of mesh dimension `dim`.
struct Placement {
  std::string dim;
  int64_t axis = 0, begin = 0, end = 0;
};

/// A leaf in another type. It is cast when it is first asked for; from then on everybody gets the same
/// tensor: micro-batches, several uses, recomputation. Its gradients go back to the leaf, also where it was
/// first asked for without gradients. Not for threads that run at the same time; a backward that recomputes
/// on the engine's thread while its caller waits is fine.
class StepCopy {
 public:
  /// Cast again where the leaf is another tensor, or was written to, since.
  const Tensor& of(const Tensor& leaf, at::ScalarType);
  /// The host does so once a step, as soon as gradients are final: no step holds the copies of another.
  void drop() {
    copy_.reset();
    leaf_.reset();
  }
  bool holds(const Tensor& tensor) const { return copy_.defined() && copy_.is_alias_of(tensor); }
  /// Of the last copy, dropped or not; 0 where nobody asked for one.
  int64_t bytes() const { return bytes_; }

 private:
  Tensor copy_, leaf_;
  int64_t version_ = 0, bytes_ = 0;
};

/// A parameter: an identity that outlives every tensor behind it. Sharding, quantization and adapters swap
/// tensors; nobody else keeps one across steps.
struct Param {
  std::string name;               ///< Hugging Face name: key of checkpoints, seeds and reports
  std::vector<int64_t> shape;     ///< logical: before any split
  std::vector<std::string> axes;  ///< a label for each axis: vocab, model, heads, kv_heads, ffn, rank
  /// Fills the full value in place. The generator is seeded by (seed, name), so every mesh starts from equal
  /// values.
  std::function<void(Tensor& value, at::Generator&)> init;
  at::ScalarType dtype = at::kFloat;
  /// Called once with the local value (of `placements`, on the device) before it is cut to `dtype`: what an
  /// optimizer starts from that keeps more bits. Set in Event::declared.
  std::function<void(const Tensor& uncut)> on_value = {};
  bool trainable = true;
  bool decay = true;                  ///< takes part in weight decay (matrices do, norms don't)
  std::vector<Placement> placements;  ///< logical to local, in order
  std::vector<std::string> sum_over;  ///< mesh dimensions besides data() over which its gradient is partial
  std::shared_ptr<const Codec> codec;
  Tensors stored;  ///< encoded form where there is a codec
  Tensor leaf;     ///< autograd leaf otherwise
  /// What matrix products compute in where that is not the leaf's type. Set in Event::declared.
  std::optional<at::ScalarType> operand_type = {};
  mutable StepCopy step_copy = {};  ///< of the leaf, in `operand_type`

  /// What operators compute with. Read at each call, never cached.
  Tensor value() const { return codec ? codec->decode(stored) : leaf; }
  /// The same for matrix products, which may compute in fewer bits: in `operand_type`, cast once a step. An
  /// operator that reads value() instead computes with all bits of the leaf, and under autocast has it cast
  /// at each use.
  Tensor operand() const;
  int64_t numel() const;
};

/// Every parameter of the model, in order of the forward. Addresses are stable.
class Params {
 public:
  /// An Error where the name is taken.
  Param& add(Param);
  Param& at(std::string_view name);
  bool contains(std::string_view name) const;
  std::vector<Param*> all();
  std::vector<const Param*> all() const;

 private:
  std::deque<Param> params_;
};

/// Elements [begin, end) of a local parameter lie at offset `at` of a shard.
struct Segment {
  Param* param = nullptr;
  int64_t begin = 0, end = 0, at = 0;
};

/// What an optimizer updates: a whole local parameter, or one rank's piece of a flat one. `segments` maps it
/// to parameters: that is how checkpoints are written and read at another number of ranks.
struct Shard {
  Tensor data, grad;
  bool decay = true;
  std::vector<Segment> segments;
  std::vector<std::string>
      split_over;  ///< mesh dimensions whose ranks hold different elements: norms sum over these
};
/// The L2 norms of the gradients that there are, each of 0 dimensions, in fp32 at least whatever their type.
Tensors gradient_norms(std::span<const Shard>);
}  // namespace optrush

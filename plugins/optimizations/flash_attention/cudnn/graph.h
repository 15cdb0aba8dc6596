#pragma once
#include <c10/core/ScalarType.h>

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

namespace optrush::flash::cudnn {
/// Distances in memory between sequences, heads and positions of a tensor (B, H, S, K), in elements. The
/// width K is contiguous.
struct Strides {
  int64_t sequence = 0, head = 0, position = 0;
  auto operator<=>(const Strides&) const = default;
};

/// What a graph computes: attention of q (B, H, S, K) with k (B, G, S', K) and v (B, G, S', V) in bf16 or
/// fp16, with a log-sum-exp in fp32, or the gradients of q, k and v.
struct Form {
  bool backward = false;
  at::ScalarType type = at::kBFloat16;
  int64_t sequences = 0;  ///< B: rows, or documents
  int64_t heads = 0, groups = 0, queries = 0, keys = 0, width = 0, value_width = 0;
  bool causal = true;
  int64_t window = 0;   ///< as in AttentionArgs
  double soft_cap = 0;  ///< as in AttentionArgs; not for documents
  double scale = 1;
  /// Sum of the lengths of the documents; 0: sequences are rows. Documents follow one another in memory, and
  /// `queries` and `keys` are the length of the longest. Tensors `lengths` and `starts` describe them.
  int64_t positions = 0;
  std::array<Strides, 5> strides{};  ///< of q, k, v; in a backward also of out and of its gradient
  auto operator<=>(const Form&) const = default;
  bool of_documents() const { return positions != 0; }
};

/// The tensors of a graph. Results are contiguous in the order (B, S, H, K), or (T, H, K) of documents; the
/// log-sum-exp is (B, H, S), or (T, H).
enum class Operand : uint8_t { q, k, v, out, gradient, lse, dq, dk, dv, lengths };
/// The first elements of the documents in an operand, (B + 1) int32.
struct Starts {
  Operand of;
};
/// The number of an operand, or of its starts, in a graph.
int64_t number_of(Operand);
int64_t number_of(Starts);

/// Whether this build has cuDNN's graph interface (nvidia-cudnn-frontend and cudnn.h).
bool built();

/// A handle of cuDNN for the present device. Needs cuDNN in the process; libtorch_cuda loads it.
std::shared_ptr<void> new_handle();

/// Properties of a card, as cuDNN writes them in JSON. A graph is then compiled for this card without a GPU.
struct Card {
  std::string properties;
};

/// A graph for which cuDNN has chosen and compiled a kernel.
/// https://docs.nvidia.com/deeplearning/cudnn/frontend/latest/operations/Attention.html
class Graph {
 public:
  /// `architecture`: "sm_90". Throws an Error with cuDNN's reason if it has no kernel.
  Graph(const Form&, const std::string& architecture, std::shared_ptr<void> handle);
  Graph(const Form&, const std::string& architecture, const Card&);
  Graph(Graph&&) noexcept;
  ~Graph();
  int64_t workspace_bytes() const;
  /// Launches the kernels on the current stream. `memory`: the addresses of all operands and starts by their
  /// numbers. Needs a handle.
  void run(const std::unordered_map<int64_t, void*>& memory, void* workspace) const;

 private:
  struct Made;
  std::unique_ptr<Made> made_;
};
}  // namespace optrush::flash::cudnn

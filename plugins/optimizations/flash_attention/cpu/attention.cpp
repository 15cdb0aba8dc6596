#include "cpu/attention.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>

#include <algorithm>

#include "cpu/operands.h"
#include "cpu/tasks.h"
#include "kernel_parts/tensors.h"
#include "optrush/forecast.h"

namespace optrush::flash::cpu {
namespace {
/// Sequence lengths at which this kernel was measured to be faster than LibTorch's. A sequence with a sliding
/// window may be longer: this kernel's time grows with S, LibTorch's with S^2.
constexpr int64_t kShortest = 64, kLongest = 8192;

/// The positions of one head of a tensor (B, H, S, K).
template <class T>
Rows<T> rows_of(const Tensor& x, int64_t b, int64_t head) {
  auto* data = const_cast<std::remove_const_t<T>*>(x.const_data_ptr<std::remove_const_t<T>>());
  return {data + b * x.stride(0) + head * x.stride(1), std::max(x.stride(2), x.size(3))};
}

/// LibTorch keeps a state of the processor's matrix unit between products in bf16.
template <class T>
struct MatrixUnit {
  MatrixUnit() = default;
  MatrixUnit(const MatrixUnit&) = delete;
  MatrixUnit& operator=(const MatrixUnit&) = delete;
  ~MatrixUnit() {
    if constexpr (kPaired<T>) at::native::cpublas::brgemm_release();
  }
};

/// The workspace of a thread in the forward. T: the type of the products.
template <class T, class Stored>
struct ForwardWorkspace {
  Widened<T, Stored> whole, queries;  ///< keys or values; a tile
  TransposedSecond<T> keys;
  AsSecond<T> values;
  RowsOver<T> weights;
  Rows<float> scores, made;
  MatrixUnit<T> unit;

  ForwardWorkspace(const Sizes& sizes, Arena& arena)
      : whole(sizes.positions, sizes.width, arena),
        queries(kTile, sizes.width, arena),
        keys(sizes.width, sizes.position_row(), arena),
        values(sizes.positions, sizes.width, arena),
        weights(kTile, sizes.score_row(), arena),
        scores(take_rows<float>(kTile, sizes.score_row(), arena)),
        made(take_rows<float>(kTile, sizes.width, arena)) {}
};

template <class T, class Stored>
void forward_of(const Sizes& sizes, const Tensor& q, const Tensor& k, const Tensor& v, float scale,
                const AttentionOut& result) {
  const int64_t parts = parts_of(sizes).value_or(1);
  Workspaces<ForwardWorkspace<T, Stored>> memory(sizes, parts, q);
  if (is_forecast(q)) return;
  float* lses = result.lse.data_ptr<float>();
  memory.each_task([&](ForwardWorkspace<T, Stored>& work, const Task& task) {
    const int64_t b = task.batch;
    const auto whole = [&](const Tensor& x) {
      return work.whole.of(rows_of<const Stored>(x, b, task.group), sizes.positions);
    };
    const Rows<float> scores = work.scores, made = work.made;
    const Rows<T> weights = work.weights.over(scores);
    const auto keys = work.keys.of(whole(k), sizes.positions, sizes.width);
    const auto values = work.values.of(whole(v), sizes.positions, sizes.width);
    each_tile(sizes, parts, task, [&](int64_t head, const Tile& tile) {
      const int64_t size = tile.size(), seen = inner_size<T>(tile.keys());
      float* lse = lses + (b * sizes.heads + head) * sizes.positions + tile.begin;
      const auto queries = work.queries.of(rows_of<const Stored>(q, b, head).from(tile.begin), size);
      multiply<T>(size, tile.keys(), sizes.width, queries, keys.from_column(tile.first), false, scores);
      std::array<float, kTile> sums{};
      for (int64_t i = 0; i < size; ++i)
        sums[static_cast<size_t>(i)] =
            exponentials(scores.at(i), visible(sizes, tile, i), seen, scale, lse + i, weights.at(i));
      multiply<T>(size, sizes.width, seen, read(weights), values.from_row(tile.first), false, made);
      const auto out = rows_of<Stored>(result.out, b, head).from(tile.begin);
      for (int64_t i = 0; i < size; ++i)
        scaled(made.at(i), 1 / sums[static_cast<size_t>(i)], sizes.width, out.at(i));
    });
  });
}

/// The workspace of a thread in the backward.
template <class T, class Stored>
struct BackwardWorkspace {
  Widened<T, Stored> whole, tile_queries, tile_gradients;
  TransposedSecond<T> turned_keys, turned_values;
  AsSecond<T> keys, of_tile;
  RowsOver<T> weights, of_scores;
  Rows<float> scores, of_weights, made, dk, dv;  ///< dk and dv transposed
  Rows<T> queries, gradients;                    ///< of a tile, transposed
  MatrixUnit<T> unit;

  BackwardWorkspace(const Sizes& sizes, Arena& arena)
      : whole(sizes.positions, sizes.width, arena),
        tile_queries(kTile, sizes.width, arena),
        tile_gradients(kTile, sizes.width, arena),
        turned_keys(sizes.width, sizes.position_row(), arena),
        turned_values(sizes.width, sizes.position_row(), arena),
        keys(sizes.positions, sizes.width, arena),
        of_tile(kTile, sizes.score_row(), arena),
        weights(kTile, sizes.score_row(), arena),
        of_scores(kTile, sizes.score_row(), arena),
        scores(take_rows<float>(kTile, sizes.score_row(), arena)),
        of_weights(take_rows<float>(kTile, sizes.score_row(), arena)),
        made(take_rows<float>(kTile, sizes.width, arena)),
        dk(take_rows<float>(sizes.width, sizes.position_row(), arena)),
        dv(take_rows<float>(sizes.width, sizes.position_row(), arena)),
        queries(take_rows<T>(sizes.width, kTile, arena)),
        gradients(take_rows<T>(sizes.width, kTile, arena)) {}
};

/// The transpose of (K, S) to the rows of a head.
template <class Out>
void write_transposed(const Sizes& sizes, Rows<const float> in, Rows<float> made, Rows<Out> out) {
  for (int64_t s = 0; s < sizes.positions; s += kTile) {
    const int64_t count = std::min(kTile, sizes.positions - s);
    transposed({in.data + s, in.row}, sizes.width, count, made);
    for (int64_t i = 0; i < count; ++i) scaled(made.at(i), 1, sizes.width, out.at(s + i));
  }
}

struct Gradients {
  const Tensor &of_out, &of_lse, &dq, &dk, &dv;
};

/// A gradient of keys or values (B, G, S, K), to which each part of the tiles adds: with several parts, in
/// fp32 and part by part.
class PartedGradient {
 public:
  PartedGradient(const Tensor& whole, int64_t parts) : whole_(whole) {
    if (parts > 1)
      parts_ = at::empty({parts, whole.size(0), whole.size(1), whole.size(2), whole.size(3)},
                         whole.options().dtype(at::kFloat));
  }

  template <class Stored>
  void write(const Sizes& sizes, const Task& task, Rows<const float> turned, Rows<float> made) const {
    if (parts_.defined())
      write_transposed(sizes, turned, made, rows_of<float>(parts_[task.part], task.batch, task.group));
    else
      write_transposed(sizes, turned, made, rows_of<Stored>(whole_, task.batch, task.group));
  }

  void add_parts() const {
    if (parts_.defined()) whole_.copy_(parts_.sum(0));
  }

 private:
  Tensor whole_, parts_;
};

template <class T, class Stored>
void backward_of(const Sizes& sizes, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
                 const Tensor& lse, float scale, const Gradients& result) {
  const int64_t parts = parts_of(sizes).value_or(1);
  const PartedGradient dk(result.dk, parts), dv(result.dv, parts);
  Workspaces<BackwardWorkspace<T, Stored>> memory(sizes, parts, q);
  if (is_forecast(q)) return dk.add_parts(), dv.add_parts();
  const float* lses = lse.const_data_ptr<float>();
  const float* lse_gradients = result.of_lse.defined() ? result.of_lse.const_data_ptr<float>() : nullptr;
  memory.each_task([&](BackwardWorkspace<T, Stored>& work, const Task& task) {
    const int64_t b = task.batch;
    const Rows<float> scores = work.scores, of_weights = work.of_weights, made = work.made;
    const Rows<T> weights = work.weights.over(scores), of_scores = work.of_scores.over(of_weights);
    const auto whole = [&](const Tensor& x) {
      return work.whole.of(rows_of<const Stored>(x, b, task.group), sizes.positions);
    };
    const auto turned_values = work.turned_values.of(whole(v), sizes.positions, sizes.width);
    const auto head_keys = whole(k);  // after the values, which use the same workspace
    const auto turned_keys = work.turned_keys.of(head_keys, sizes.positions, sizes.width);
    const auto keys = work.keys.of(head_keys, sizes.positions, sizes.width);
    bool add = false;  // the first tile begins the sums
    each_tile(sizes, parts, task, [&](int64_t head, const Tile& tile) {
      const int64_t size = tile.size(), inner = inner_size<T>(size), seen = inner_size<T>(tile.keys());
      const auto tile_of_head = [&](const Tensor& x) {
        return rows_of<const Stored>(x, b, head).from(tile.begin);
      };
      const auto stored_of_out = tile_of_head(result.of_out), outs = tile_of_head(out);
      const auto queries = work.tile_queries.of(tile_of_head(q), size);
      const auto of_out = work.tile_gradients.of(stored_of_out, size);
      const int64_t first_row = (b * sizes.heads + head) * sizes.positions + tile.begin;
      const float* head_lse = lses + first_row;
      multiply<T>(size, tile.keys(), sizes.width, queries, turned_keys.from_column(tile.first), false,
                  scores);
      multiply<T>(size, tile.keys(), sizes.width, of_out, turned_values.from_column(tile.first), false,
                  of_weights);
      for (int64_t i = 0; i < size; ++i) {
        float inner = inner_product(stored_of_out.at(i), outs.at(i), sizes.width);
        if (lse_gradients != nullptr) inner -= lse_gradients[first_row + i];
        softmax_gradient(scores.at(i), of_weights.at(i), visible(sizes, tile, i), seen,
                         {scale, head_lse[i], inner}, weights.at(i), of_scores.at(i));
      }
      transposed(of_out, size, sizes.width, work.gradients);
      transposed(queries, size, sizes.width, work.queries);
      const auto add_product = [&](Rows<const T> of_queries, Rows<const T> of_keys, Rows<float> sums) {
        multiply<T>(sizes.width, tile.keys(), inner, of_queries, work.of_tile.of(of_keys, size, tile.keys()),
                    add, sums.from_column(tile.first));
      };
      add_product(read(work.gradients), read(weights), work.dv);
      add_product(read(work.queries), read(of_scores), work.dk);
      multiply<T>(size, sizes.width, seen, read(of_scores), keys.from_row(tile.first), false, made);
      const auto dq = rows_of<Stored>(result.dq, b, head).from(tile.begin);
      for (int64_t i = 0; i < size; ++i) scaled(made.at(i), 1, sizes.width, dq.at(i));
      if (!add) {
        for (const Rows<float>& sums : {work.dk, work.dv})
          for (int64_t i = 0; i < sizes.width; ++i) {
            std::fill_n(sums.at(i), tile.first, 0.0F);
            std::fill(sums.at(i) + tile.end, sums.at(i) + sizes.positions, 0.0F);
          }
      }
      add = true;
    });
    dk.write<Stored>(sizes, task, read(work.dk), work.made);
    dv.write<Stored>(sizes, task, read(work.dv), work.made);
  });
  dk.add_parts();
  dv.add_parts();
}

Tensor dense_rows(const Tensor& x) {
  const bool apart = x.size(2) == 1 || x.stride(2) >= x.size(3);
  return x.stride(3) == 1 && apart ? x : x.contiguous();
}

/// FLOPs of `products` products of queries with the keys that they see: without a window, half of all keys.
double flops_of(const Sizes& sizes, double products) {
  const int64_t twice_the_pairs = sizes.window * (2 * sizes.positions - sizes.window);
  return products * static_cast<double>(sizes.batch * sizes.heads * sizes.width * twice_the_pairs);
}

/// Calls run(a number of the type of the products, a number of the type in memory).
template <class Run>
void with_types(at::ScalarType type, const Scores& scores, const Run& run) {
  if (type == at::kFloat)
    run(float(), float());
  else if (scores.widens)
    run(float(), c10::BFloat16());
  else
    run(c10::BFloat16(), c10::BFloat16());
}
}  // namespace

bool supports(at::ScalarType type) {
#if defined(__x86_64__)
  if (!at::globalContext().userEnabledMkldnn() || !__builtin_cpu_supports("avx512bw")) return false;
  return type == at::kFloat || type == at::kBFloat16;
#else
  (void)type;
  return false;
#endif
}

bool takes(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args) {
  const bool of_cpu = q.is_cpu() || (is_forecast(q) && form_of(q) == at::kCPU);
  const at::ScalarType type = q.scalar_type();
  const int64_t positions = q.size(2);
  return of_cpu && args.causal && !args.segments.defined() && !args.alibi && k.scalar_type() == type &&
         v.scalar_type() == type && supports(type) && k.size(2) == positions && positions >= kShortest &&
         (positions <= kLongest || args.has_window(positions)) && v.size(3) == q.size(3) &&
         (type == at::kFloat || q.size(3) % 2 == 0) && q.size(1) % k.size(1) == 0 && q.numel() > 0 &&
         parts_of(Sizes(q, k, args.window)).has_value();
}

AttentionOut forward(const Tensor& q_given, const Tensor& k_given, const Tensor& v_given, Scores scores) {
  const Tensor q = dense_rows(q_given), k = dense_rows(k_given), v = dense_rows(v_given);
  const Sizes sizes(q, k, scores.window);
  AttentionOut result{fused::empty_heads(q),
                      at::empty({sizes.batch, sizes.heads, sizes.positions}, q.options().dtype(at::kFloat))};
  note_flops(flops_of(sizes, 2));
  const NotedKernel kernel("attention", 0);
  with_types(q.scalar_type(), scores, [&](auto arithmetic, auto stored) {
    forward_of<decltype(arithmetic), decltype(stored)>(sizes, q, k, v, static_cast<float>(scores.scale),
                                                       result);
  });
  return result;
}

std::array<Tensor, 3> backward(const Tensor& gradient_given, const Tensor& q_given, const Tensor& k_given,
                               const Tensor& v_given, const Tensor& out_given, const Tensor& lse_given,
                               const Tensor& lse_gradient_given, Scores scores) {
  const Tensor q = dense_rows(q_given), k = dense_rows(k_given), v = dense_rows(v_given),
               gradient = dense_rows(gradient_given), out = dense_rows(out_given),
               lse = lse_given.contiguous();
  const Tensor lse_gradient =
      lse_gradient_given.defined() ? lse_gradient_given.to(at::kFloat).contiguous() : Tensor();
  const Sizes sizes(q, k, scores.window);
  const std::array<Tensor, 3> result = {fused::empty_heads(q), fused::empty_heads(k), fused::empty_heads(v)};
  note_flops(flops_of(sizes, 5));
  const NotedKernel kernel("attention_backward", 0, /*launches=*/3);
  const Gradients gradients{gradient, lse_gradient, result[0], result[1], result[2]};
  with_types(q.scalar_type(), scores, [&](auto arithmetic, auto stored) {
    backward_of<decltype(arithmetic), decltype(stored)>(sizes, q, k, v, out, lse,
                                                        static_cast<float>(scores.scale), gradients);
  });
  return result;
}

Differentiable attention(Scores scores) {
  return {{.name = "causal_attention",
           .forward = [scores](const Tensors& in) -> Differentiable::Result {
             const AttentionOut made = forward(in[0], in[1], in[2], scores);
             return {{made.out, made.lse}, {in[0], in[1], in[2], made.out, made.lse}};
           },
           .backward = [scores](const Tensors& saved, const Tensors& gradients) -> Tensors {
             const Tensor of_out = gradients[0].defined() ? gradients[0] : at::zeros_like(saved[3]);
             const auto [dq, dk, dv] =
                 backward(of_out, saved[0], saved[1], saved[2], saved[3], saved[4], gradients[1], scores);
             return {dq, dk, dv};
           },
           .traits = {.trace = Trace::opaque, .capturable = true}}};
}
}  // namespace optrush::flash::cpu

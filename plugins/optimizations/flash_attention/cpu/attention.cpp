#include "cpu/attention.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/rows.h"
#include "optrush/forecast.h"

namespace optrush::flash::cpu {
namespace {
/// The product of the BLAS that LibTorch calls; inside of a thread it stays there.
using Sgemm = void (*)(const char*, const char*, const int*, const int*, const int*, const float*,
                       const float*, const int*, const float*, const int*, const float*, float*, const int*);
Sgemm sgemm() {
  static const auto found = reinterpret_cast<Sgemm>(dlsym(RTLD_DEFAULT, "sgemm_"));
  return found;
}

/// Sequences for which it was measured to be faster than LibTorch's kernel: that one multiplies a query with
/// whole blocks of 512 keys, which counts less in longer ones, and shorter ones have few products to save.
constexpr int64_t kShortest = 384, kLongest = 1536;

/// Rows of a matrix: `row` elements from one to the next.
struct Matrix {
  float* data;
  int64_t row;
};

enum class Form : uint8_t { as_is, transposed };

/// out (m, n) = keep out + a b, where a is (m, k) and b (k, n) once they are transposed.
void multiply(Form a_form, Form b_form, int64_t m, int64_t n, int64_t k, Matrix a, Matrix b, float keep,
              Matrix out) {
  // Of columns it is the product of the transposed ones, in the other order.
  const char first = b_form == Form::transposed ? 'T' : 'N', second = a_form == Form::transposed ? 'T' : 'N';
  const int rows = static_cast<int>(n), columns = static_cast<int>(m), inner = static_cast<int>(k),
            a_row = static_cast<int>(a.row), b_row = static_cast<int>(b.row),
            out_row = static_cast<int>(out.row);
  const float one = 1;
  sgemm()(&first, &second, &rows, &columns, &inner, &one, b.data, &b_row, a.data, &a_row, &keep, out.data,
          &out_row);
}

/// B batch, H query heads, G heads of keys and values, S positions, K width of a head.
struct Sizes {
  int64_t batch, heads, groups, positions, width;
  Sizes(const Tensor& q, const Tensor& k)
      : batch(q.size(0)), heads(q.size(1)), groups(k.size(1)), positions(q.size(2)), width(q.size(3)) {}
  int64_t shared() const { return heads / groups; }
  /// Positions of a tile: with the heads that share keys, and all keys, it stays in the second cache.
  int64_t tile() const {
    constexpr int64_t kElements = 1 << 17, kMost = 128, kLeast = 8;
    return std::clamp(kElements / (positions * shared()), kLeast, kMost);
  }
  int64_t tiles() const { return (positions + tile() - 1) / tile(); }
};

/// The heads of one batch that share keys, of a tensor (B, H, S, K).
struct Heads {
  float* data;
  int64_t head, position;
  Heads(const Tensor& x, int64_t b, int64_t first_head)
      : data(const_cast<float*>(x.const_data_ptr<float>()) + b * x.stride(0) + first_head * x.stride(1)),
        head(x.stride(1)),
        position(std::max(x.stride(2), x.size(3))) {}
  float* row(int64_t s, int64_t h) const { return data + s * position + h * head; }
  Matrix of_head() const { return {data, position}; }
};

/// Positions [begin, end), which see the keys before `end`.
struct Tile {
  int64_t begin, end, shared, width;
  int64_t rows() const { return (end - begin) * shared; }

  /// visit(row of the tile, position, head)
  template <class Visit>
  void each_row(const Visit& visit) const {
    int64_t row = 0;
    for (int64_t s = begin; s < end; ++s)
      for (int64_t h = 0; h < shared; ++h) visit(row++, s, h);
  }
  /// Its rows beside each other, times `factor`.
  void pack(const Heads& from, float factor, float* to) const {
    each_row([&](int64_t row, int64_t s, int64_t h) {
      const float* in = from.row(s, h);
      for (int64_t i = 0; i < width; ++i) to[row * width + i] = in[i] * factor;
    });
  }
};

Tile tile_of(const Sizes& sizes, int64_t index) {
  const int64_t begin = index * sizes.tile();
  return {begin, std::min(begin + sizes.tile(), sizes.positions), sizes.shared(), sizes.width};
}

/// (B, H, S, K) in memory as (B, S, H, K), as linears write and read it.
Tensor empty_heads(const Tensor& like) {
  return at::empty({like.size(0), like.size(2), like.size(1), like.size(3)}, like.options()).transpose(1, 2);
}

Tensor dense_rows(const Tensor& x) {
  const bool apart = x.size(2) == 1 || x.stride(2) >= x.size(3);
  return x.stride(3) == 1 && apart ? x : x.contiguous();
}

/// FLOPs of so many products of queries with the keys that they see, half of all.
double flops_of(const Sizes& sizes, double products) {
  const auto all =
      static_cast<double>(sizes.batch * sizes.heads * sizes.positions * sizes.positions * sizes.width);
  return products * 2 * all / 2;
}
}  // namespace

bool takes(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args) {
  const bool of_cpu = q.is_cpu() || (is_forecast(q) && form_of(q) == at::kCPU);
  return of_cpu && args.causal && !args.segments.defined() && !args.alibi && !args.has_window(k.size(2)) &&
         q.scalar_type() == at::kFloat && k.scalar_type() == at::kFloat && v.scalar_type() == at::kFloat &&
         q.size(2) == k.size(2) && q.size(2) >= kShortest && q.size(2) <= kLongest &&
         v.size(3) == q.size(3) && q.size(1) % k.size(1) == 0 && q.numel() > 0 &&
         q.size(0) * k.size(1) >= at::get_num_threads() && sgemm() != nullptr;
}

AttentionOut forward(const Tensor& q_given, const Tensor& k_given, const Tensor& v_given, double scale) {
  const Tensor q = dense_rows(q_given), k = dense_rows(k_given), v = dense_rows(v_given);
  const Sizes sizes(q, k);
  AttentionOut result{empty_heads(q), at::empty({sizes.batch, sizes.heads, sizes.positions}, q.options())};
  note_flops(flops_of(sizes, 2));
  const NotedKernel kernel("attention", 0);
  if (is_forecast(q)) return result;
  const Tensor& lse = result.lse;
  at::parallel_for(0, sizes.batch * sizes.groups * sizes.tiles(), 1, [&](int64_t first, int64_t last) {
    const int64_t rows = sizes.tile() * sizes.shared();
    std::vector<float> packed(static_cast<size_t>(rows * sizes.width)), made(packed.size()),
        scores(static_cast<size_t>(rows * sizes.positions));
    for (int64_t task = first; task < last; ++task) {
      const int64_t b = task / sizes.tiles() / sizes.groups, group = task / sizes.tiles() % sizes.groups;
      const int64_t head = group * sizes.shared();
      const Tile tile = tile_of(sizes, task % sizes.tiles());
      const int64_t keys = tile.end;
      tile.pack(Heads(q, b, head), static_cast<float>(scale), packed.data());
      multiply(Form::as_is, Form::transposed, tile.rows(), keys, sizes.width, {packed.data(), sizes.width},
               Heads(k, b, group).of_head(), 0, {scores.data(), keys});
      std::vector<float>& sums = packed;  // the queries are done
      const Tensor lse_of_batch = lse.select(0, b);
      float* lses = lse_of_batch.data_ptr<float>();
      tile.each_row([&](int64_t row, int64_t s, int64_t h) {
        float largest = 0;
        const float sum = exponentials(scores.data() + row * keys, s + 1, keys, &largest);
        sums[static_cast<size_t>(row)] = sum;
        lses[(head + h) * sizes.positions + s] = largest + std::log(sum);
      });
      multiply(Form::as_is, Form::as_is, tile.rows(), sizes.width, keys, {scores.data(), keys},
               Heads(v, b, group).of_head(), 0, {made.data(), sizes.width});
      const Heads out(result.out, b, head);
      tile.each_row([&](int64_t row, int64_t s, int64_t h) {
        const float factor = 1 / sums[static_cast<size_t>(row)];
        for (int64_t i = 0; i < sizes.width; ++i)
          out.row(s, h)[i] = made[static_cast<size_t>(row * sizes.width + i)] * factor;
      });
    }
  });
  return result;
}

std::array<Tensor, 3> backward(const Tensor& gradient_given, const Tensor& q_given, const Tensor& k_given,
                               const Tensor& v_given, const Tensor& out_given, const Tensor& lse_given,
                               double scale) {
  const Tensor q = dense_rows(q_given), k = dense_rows(k_given), v = dense_rows(v_given),
               gradient = dense_rows(gradient_given), out = dense_rows(out_given),
               lse = lse_given.contiguous();
  const Sizes sizes(q, k);
  const std::array<Tensor, 3> result = {empty_heads(q), empty_heads(k), empty_heads(v)};
  note_flops(flops_of(sizes, 5));
  const NotedKernel kernel("attention_backward", 0, /*launches=*/3);
  if (is_forecast(q)) return result;
  at::parallel_for(0, sizes.batch * sizes.groups, 1, [&](int64_t first, int64_t last) {
    const int64_t rows = sizes.tile() * sizes.shared();
    std::vector<float> queries(static_cast<size_t>(rows * sizes.width)), upstream(queries.size()),
        made(queries.size()), weights(static_cast<size_t>(rows * sizes.positions)), of_scores(weights.size());
    for (int64_t task = first; task < last; ++task) {
      const int64_t b = task / sizes.groups, group = task % sizes.groups, head = group * sizes.shared();
      const Matrix keys_of = Heads(k, b, group).of_head(), values_of = Heads(v, b, group).of_head();
      const Matrix dk = Heads(result[1], b, group).of_head(), dv = Heads(result[2], b, group).of_head();
      const Heads of_out(out, b, head), of_gradient(gradient, b, head), dq(result[0], b, head);
      const float* lses = lse.const_data_ptr<float>() + (b * sizes.heads + head) * sizes.positions;
      // The last tile sees all keys, so it begins their sums.
      for (int64_t index = sizes.tiles() - 1; index >= 0; --index) {
        const Tile tile = tile_of(sizes, index);
        const int64_t keys = tile.end, m = tile.rows();
        const float keep = index == sizes.tiles() - 1 ? 0 : 1;
        const Matrix packed_q{queries.data(), sizes.width}, packed_d{upstream.data(), sizes.width};
        const Matrix p{weights.data(), keys}, ds{of_scores.data(), keys};
        tile.pack(Heads(q, b, head), static_cast<float>(scale), queries.data());
        tile.pack(of_gradient, 1, upstream.data());
        multiply(Form::as_is, Form::transposed, m, keys, sizes.width, packed_q, keys_of, 0, p);
        tile.each_row([&](int64_t row, int64_t s, int64_t h) {
          weights_of(p.data + row * keys, s + 1, keys, lses[h * sizes.positions + s]);
        });
        multiply(Form::transposed, Form::as_is, keys, sizes.width, m, p, packed_d, keep, dv);
        multiply(Form::as_is, Form::transposed, m, keys, sizes.width, packed_d, values_of, 0, ds);
        tile.each_row([&](int64_t row, int64_t s, int64_t h) {
          float inner = 0;
          for (int64_t i = 0; i < sizes.width; ++i) inner += of_gradient.row(s, h)[i] * of_out.row(s, h)[i];
          scores_gradient(ds.data + row * keys, p.data + row * keys, keys, inner);
        });
        multiply(Form::as_is, Form::as_is, m, sizes.width, keys, ds, keys_of, 0, {made.data(), sizes.width});
        multiply(Form::transposed, Form::as_is, keys, sizes.width, m, ds, packed_q, keep, dk);
        tile.each_row([&](int64_t row, int64_t s, int64_t h) {
          for (int64_t i = 0; i < sizes.width; ++i)
            dq.row(s, h)[i] = made[static_cast<size_t>(row * sizes.width + i)] * static_cast<float>(scale);
        });
      }
    }
  });
  return result;
}

Differentiable attention(double scale) {
  return {.name = "causal_attention",
          .forward = [scale](const Tensors& in) -> Differentiable::Result {
            const AttentionOut made = forward(in[0], in[1], in[2], scale);
            return {{made.out}, {in[0], in[1], in[2], made.out, made.lse}};
          },
          .backward = [scale](const Tensors& saved, const Tensors& gradients) -> Tensors {
            const auto [dq, dk, dv] =
                backward(gradients[0], saved[0], saved[1], saved[2], saved[3], saved[4], scale);
            return {dq, dk, dv};
          },
          .traits = {.trace = Trace::opaque, .capturable = true}};
}
}  // namespace optrush::flash::cpu

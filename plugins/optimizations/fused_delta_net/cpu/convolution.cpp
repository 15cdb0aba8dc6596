// SiLU of a causal convolution of each channel on a CPU, in one pass over memory: the last positions are in
// the first caches.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/convolution.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include "hwy/foreach_target.h"
// The target's own headers come after it.
#include <algorithm>
#include <vector>

#include "hwy/highway.h"
#include "kernel_parts/lanes-inl.h"
#include "kernel_parts/sigmoid-inl.h"
#include "kernels.h"

HWY_BEFORE_NAMESPACE();
namespace optrush::fused {
namespace HWY_NAMESPACE {
/// One row of the batch.
template <class T>
struct Row {
  using W = Wide<T>;
  const Convolution& p;
  const T* x;
  const int32_t* documents;

  Row(const Convolution& given, int64_t row)
      : p(given),
        x(static_cast<const T*>(given.x) + row * given.positions * given.channels),
        documents(given.documents == nullptr ? nullptr : given.documents + row * given.positions) {}
  /// Whether the output at `position` sees the position `back` before it.
  bool sees(int64_t position, int64_t back) const {
    const int64_t other = position - back;
    return other >= 0 && (documents == nullptr || documents[other] == documents[position]);
  }
  /// The weights of the position `back` before.
  const W* weight(int64_t back) const {
    return static_cast<const W*>(p.weight) + (p.taps - 1 - back) * p.channels;
  }
  /// The sum at `position` for the channels at `c`.
  template <class D>
  hn::Vec<D> sum(D d, int64_t position, int64_t c) const {
    auto sum = hn::Zero(d);
    for (int64_t back = 0; back < p.taps; ++back)
      if (sees(position, back))
        sum = hn::MulAdd(load(d, x + (position - back) * p.channels + c), load(d, weight(back) + c), sum);
    return sum;
  }
};

/// Calls body(row, first position, end of the positions) for tokens counted over the batch.
template <class T, class Body>
void each_row(const Convolution& p, int64_t begin, int64_t end, const Body& body) {
  while (begin < end) {
    const int64_t row = begin / p.positions, stop = std::min(end, (row + 1) * p.positions);
    body(row, begin - row * p.positions, stop - row * p.positions);
    begin = stop;
  }
}

template <class T>
void forward(const Convolution& p, T* out, int64_t begin, int64_t end) {
  each_row<T>(p, begin, end, [&](int64_t index, int64_t first, int64_t last) HWY_ATTR {
    const Row<T> row(p, index);
    for (int64_t s = first; s < last; ++s)
      each_vector<Wide<T>>(0, p.channels, [&](auto d, int64_t c) HWY_ATTR {
        const auto sum = row.sum(d, s, c);
        store(d, hn::Mul(sum, sigmoid(d, sum).value), out + (index * p.positions + s) * p.channels + c,
              /*stream=*/false);
      });
  });
}

template <class T>
void backward(const Convolution& p, const T* out_gradient, T* x_gradient, double* weight_part, int64_t begin,
              int64_t end) {
  using W = Wide<T>;
  constexpr int64_t kFlush = 64;  // tokens whose gradients of the weight are summed in W
  const auto size = static_cast<size_t>(p.taps * p.channels);
  std::vector<W> of_sums(size), of_weight(size, W(0));
  const auto flush = [&] {
    for (size_t i = 0; i < size; ++i) weight_part[i] += static_cast<double>(of_weight[i]);
    std::fill(of_weight.begin(), of_weight.end(), W(0));
  };
  each_row<T>(p, begin, end, [&](int64_t index, int64_t first, int64_t last) HWY_ATTR {
    const Row<T> row(p, index);
    const auto of_sum = [&](int64_t s) { return of_sums.data() + s % p.taps * p.channels; };
    const auto token = [&](int64_t s) { return (index * p.positions + s) * p.channels; };
    for (int64_t s = first; s < last + p.taps - 1; ++s) {
      if (s < p.positions)
        each_vector<W>(0, p.channels, [&](auto d, int64_t c) HWY_ATTR {
          const auto sum = row.sum(d, s, c);
          const auto y = sigmoid(d, sum);
          const auto slope = hn::Mul(y.value, hn::MulAdd(sum, y.rest, hn::Set(d, W(1))));
          const auto gradient = hn::Mul(load(d, out_gradient + token(s) + c), slope);
          hn::StoreU(gradient, d, of_sum(s) + c);
          if (s >= last) return;  // another thread's
          for (int64_t back = 0; back < p.taps; ++back) {
            if (!row.sees(s, back)) continue;
            W* const to = of_weight.data() + (p.taps - 1 - back) * p.channels + c;
            const auto x = load(d, row.x + (s - back) * p.channels + c);
            hn::StoreU(hn::MulAdd(gradient, x, hn::LoadU(d, to)), d, to);
          }
        });
      if (s % kFlush == 0) flush();
      const int64_t done = s - (p.taps - 1);
      if (done < first) continue;
      each_vector<W>(0, p.channels, [&](auto d, int64_t c) HWY_ATTR {
        auto sum = hn::Zero(d);
        for (int64_t back = 0; back < p.taps; ++back)
          if (done + back < p.positions && row.sees(done + back, back))
            sum = hn::MulAdd(hn::LoadU(d, of_sum(done + back) + c), load(d, row.weight(back) + c), sum);
        store(d, sum, x_gradient + token(done) + c, /*stream=*/false);
      });
    }
  });
  flush();
}

void convolution_forward_each_type(const Convolution& p, void* out, int64_t begin, int64_t end) {
  with_type(p.type, [&](auto* t) HWY_ATTR { forward(p, static_cast<decltype(t)>(out), begin, end); });
}
void convolution_backward_each_type(const Convolution& p, const void* out_gradient, void* x_gradient,
                                    double* weight_part, int64_t begin, int64_t end) {
  with_type(p.type, [&](auto* t) HWY_ATTR {
    using T = std::remove_pointer_t<decltype(t)>;
    backward(p, static_cast<const T*>(out_gradient), static_cast<T*>(x_gradient), weight_part, begin, end);
  });
}
}  // namespace HWY_NAMESPACE
}  // namespace optrush::fused
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace optrush::fused {
HWY_EXPORT(convolution_forward_each_type);
HWY_EXPORT(convolution_backward_each_type);
void cpu::convolution_forward(const Convolution& p, void* out, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(convolution_forward_each_type)(p, out, begin, end);
}
void cpu::convolution_backward(const Convolution& p, const void* out_gradient, void* x_gradient,
                               double* weight_part, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(convolution_backward_each_type)(p, out_gradient, x_gradient, weight_part, begin, end);
}
}  // namespace optrush::fused
#endif

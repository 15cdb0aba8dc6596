// The GPU kernels of Gated DeltaNet, run by threads of the host, against the plain forms: values, every
// gradient, and the shared memory that the host asks for.
#include <gtest/gtest.h>

#include "support/cuda_on_threads.h"

namespace {
namespace rule {
#include "fused_delta_net/gpu/delta_rule.cu"
}
namespace rule_backward {
#include "fused_delta_net/gpu/delta_rule_backward.cu"
}
namespace short_convolution {
#include "fused_delta_net/gpu/convolution.cu"
}
}  // namespace

#include <ATen/Functions.h>

#include "delta_net_cases.h"
#include "fused_delta_net/gpu/programs.h"
#include "fused_delta_net/gpu/workspace.h"
#include "kernel_parts/tensors.h"
#include "model/delta_rule.h"

namespace {
namespace host = optrush::fused;
using at::Tensor;
using Tensors = std::vector<Tensor>;
using optrush::testing::DeltaNetSizes;
using optrush::testing::documents_of;
using optrush::testing::launch;
using optrush::testing::rule_inputs;

/// The kernels' struct from the host's, which has the same layout.
template <class To, class From>
To as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(static_cast<void*>(&to), &from, sizeof(To));
  return to;
}
template <class R>
R rows(const Tensor& x) {
  return {x.data_ptr(), x.stride(0), x.stride(1), x.stride(2)};
}

/// Runs blocks that may use `shared` bytes, and finds writes behind them.
void launch_with(int64_t shared, int64_t blocks, unsigned int threads, const std::function<void()>& kernel) {
  auto* const bytes = reinterpret_cast<unsigned char*>(block_memory);
  std::fill(bytes, bytes + sizeof(block_memory), static_cast<unsigned char>(0xAB));
  launch(static_cast<unsigned int>(blocks), {threads, 1, 1}, kernel);
  ASSERT_TRUE(
      std::all_of(bytes + shared, bytes + sizeof(block_memory), [](auto byte) { return byte == 0xAB; }))
      << "more than " << shared << " bytes of shared memory are used";
}

host::Type type_of(at::ScalarType type) { return host::type_of(at::empty({0}, type), "test"); }

/// {q, k, v, log_decay, beta, gradient of the output}
Tensors rule_and_gradient(const DeltaNetSizes& s, at::ScalarType type) {
  Tensors in = rule_inputs(s, type);
  const Tensor gradient = at::randn({s.batch, s.positions, s.value_heads, s.value_width}, at::kDouble);
  in.push_back(gradient.to(type).transpose(1, 2));
  return in;
}

/// {the output, gradients of q, k, v, log_decay, beta} by the plain form in fp64.
Tensors plain_results(const Tensors& given, const Tensor& documents) {
  Tensors in;
  for (size_t i = 0; i < 5; ++i) in.push_back(given[i].to(at::kDouble).detach().requires_grad_());
  const Tensor out = optrush::testing::plain_rule(in, documents);
  (out * given[5].to(at::kDouble)).sum().backward();
  Tensors all = {out.detach()};
  for (const Tensor& x : in) all.push_back(x.grad());
  return all;
}

/// The same by the kernels. T: the kernels' type, N: neighbours a load.
template <class T, int N>
Tensors rule_by_kernels(const Tensors& in, const Tensor& documents) {
  const Tensor &q = in[0], &v = in[2];
  const host::Type type = type_of(v.scalar_type());
  const int64_t chunk = host::gpu::delta_rule_chunk(type), chunks = (v.size(2) + chunk - 1) / chunk;
  EXPECT_EQ(chunk, rule::kChunk<T>);
  const rule::DeltaRule call{static_cast<unsigned char>(type),
                             rows<rule::Rows>(q),
                             rows<rule::Rows>(in[1]),
                             rows<rule::Rows>(v),
                             rows<rule::Rows>(in[3]),
                             rows<rule::Rows>(in[4]),
                             documents.defined() ? documents.const_data_ptr<int>() : nullptr,
                             q.size(0),
                             q.size(1),
                             v.size(1) / q.size(1),
                             v.size(2),
                             q.size(3),
                             v.size(3)};
  const auto call_back = as<rule_backward::DeltaRule>(call);
  const auto workspace = host::gpu::Workspace::of_backward(q, v);
  const auto w = as<rule::DeltaRuleWorkspace>(workspace.addresses());
  const auto w_back = as<rule_backward::DeltaRuleWorkspace>(w);
  const auto shared = host::gpu::delta_rule_shared(type, q.size(3));
  const int64_t key_rows = q.size(0) * q.size(1) * q.size(2), key_chunks = q.size(0) * q.size(1) * chunks;
  const int64_t value_chunks = v.size(0) * v.size(1) * chunks;
  const int64_t value_slices =
      v.size(0) * v.size(1) * ((v.size(3) + host::gpu::kSlice - 1) / host::gpu::kSlice);
  const int64_t key_slabs = key_chunks * ((q.size(3) + host::gpu::kSlab - 1) / host::gpu::kSlab);
  constexpr auto kThreads = static_cast<unsigned int>(rule::kThreads);

  Tensors out;
  for (const size_t i : {2, 0, 1, 2, 3, 4}) out.push_back(host::empty_heads(in[i]).fill_(99));
  launch_with(0, (key_rows + 3) / 4, kThreads, [&] { rule::lengths<T>(call, w, key_rows); });
  launch_with(shared.squares, value_chunks, kThreads, [&] { rule::squares<T, N>(call, w); });
  launch_with(shared.states, value_slices, kThreads, [&] { rule::states<T, N>(call, w); });
  launch_with(shared.outputs, value_chunks, kThreads,
              [&] { rule::outputs<T, N>(call, w, rows<rule::MutableRows>(out[0])); });
  using rule_backward::MutableRows;
  const auto dout = rows<rule_backward::Rows>(in[5]);
  launch_with(shared.state_gradients, value_slices, kThreads,
              [&] { rule_backward::state_gradients<T, N>(call_back, w_back, dout); });
  launch_with(shared.square_gradients, key_chunks, kThreads, [&] {
    rule_backward::square_gradients<T, N>(call_back, w_back, dout, rows<MutableRows>(out[3]));
  });
  launch_with(shared.key_gradients, key_slabs, kThreads,
              [&] { rule_backward::key_gradients<T, N>(call_back, w_back, dout); });
  launch_with(0, (key_rows + 3) / 4, kThreads, [&] {
    rule_backward::unnormalize<T>(call_back, w_back, key_rows, rows<MutableRows>(out[1]),
                                  rows<MutableRows>(out[2]));
  });
  launch_with(shared.gate_gradients, value_chunks, static_cast<unsigned int>(chunk), [&] {
    rule_backward::gate_gradients<T>(call_back, w_back, rows<MutableRows>(out[4]), rows<MutableRows>(out[5]));
  });
  return out;
}

void expect_near_plain(const Tensors& got, const Tensors& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].sizes(), expected[i].sizes());
    const double scale = std::max(1.0, expected[i].abs().max().item<double>());
    EXPECT_LE((got[i].to(at::kDouble) - expected[i]).abs().max().item<double>(), tolerance * scale) << i;
  }
}

template <class T, int N>
void check_rule(const DeltaNetSizes& s, at::ScalarType type, bool packed, double tolerance) {
  SCOPED_TRACE(std::string(c10::toString(type)) + ", " + std::to_string(s.positions) + " positions, widths " +
               std::to_string(s.key_width) + " and " + std::to_string(s.value_width) +
               (packed ? ", packed" : ""));
  const Tensors in = rule_and_gradient(s, type);
  const Tensor documents = packed ? documents_of(s.batch, s.positions) : Tensor();
  expect_near_plain(rule_by_kernels<T, N>(in, documents), plain_results(in, documents), tolerance);
}

constexpr double kDouble = 1e-11, kFloat = 2e-5;

// Several chunks, heads that share keys, and documents.
TEST(DeltaNetKernel, RuleEqualsThePlainForm) {
  check_rule<double, 2>({2, 1, 2, 70, 16, 64}, at::kDouble, true, kDouble);
  check_rule<float, 4>({1, 1, 2, 135, 16, 64}, at::kFloat, true, kFloat);
  check_rule<float, 4>({1, 2, 2, 70, 64, 16}, at::kFloat, false, kFloat);
}

TEST(DeltaNetKernel, RuleAcceptsAnyWidthAndLength) {
  check_rule<double, 2>({1, 2, 2, 1, 16, 16}, at::kDouble, false, kDouble);
  check_rule<double, 1>({1, 1, 3, 40, 5, 3}, at::kDouble, true, kDouble);
  check_rule<double, 1>({1, 1, 1, 32, 33, 70}, at::kDouble, false, kDouble);
  check_rule<double, 2>({1, 1, 1, 40, 128, 128}, at::kDouble, false, kDouble);
  check_rule<float, 1>({1, 1, 1, 39, 12, 20}, at::kFloat, false, kFloat);
  check_rule<float, 4>({1, 1, 1, 70, 256, 32}, at::kFloat, false, kFloat);
}

TEST(DeltaNetKernel, RuleOnTensorCoresIsAsCloseAsTheType) {
  check_rule<__nv_bfloat16, 8>({1, 1, 1, 70, 32, 16}, at::kBFloat16, true, 1.0 / 256);
  check_rule<__half, 1>({1, 1, 1, 20, 12, 20}, at::kHalf, false, 1.0 / 256);
}

/// {SiLU of the convolution, gradients of x and of the weight}
Tensors plain_convolution(const Tensors& given, const Tensor& documents) {
  const Tensor x = given[0].to(at::kDouble).requires_grad_(),
               weight = given[1].to(at::kDouble).requires_grad_();
  const Tensor out = at::silu(optrush::plain::causal_convolution(x, weight, documents));
  (out * given[2].to(at::kDouble)).sum().backward();
  return {out.detach(), x.grad(), weight.grad()};
}

template <class T, int N, int taps>
void check_convolution(int64_t batch, int64_t positions, int64_t channels, at::ScalarType type, bool packed,
                       double tolerance) {
  SCOPED_TRACE(std::string(c10::toString(type)) + ", " + std::to_string(positions) + " positions, " +
               std::to_string(taps) + " taps" + (packed ? ", packed" : ""));
  namespace conv = short_convolution;
  using W = conv::Wide<T>;
  at::manual_seed(4);
  const auto random = [&](at::IntArrayRef sizes) { return at::randn(sizes, at::kDouble).to(type); };
  const Tensors in = {random({batch, positions, channels}), random({channels, 1, taps}),
                      random({batch, positions, channels})};
  const Tensor documents = packed ? documents_of(batch, positions) : Tensor();
  const Tensor weight = in[1].to(host::wide_type(in[0])).flatten(1).t().contiguous();
  const conv::Convolution call{static_cast<unsigned char>(type_of(type)),
                               in[0].data_ptr(),
                               weight.data_ptr(),
                               packed ? documents.const_data_ptr<int>() : nullptr,
                               batch,
                               positions,
                               channels,
                               taps};
  EXPECT_EQ(conv::kRun, host::gpu::kConvolutionRun);
  const int64_t runs = host::gpu::convolution_runs(batch, positions), threads = runs * channels / N;
  const Tensor out = at::empty_like(in[0]), x_gradient = at::empty_like(in[0]),
               of_weight = at::empty_like(in[1]);
  const Tensor parts = at::empty({runs, taps, channels}, weight.options());
  const auto data = [](const Tensor& x) { return static_cast<T*>(x.data_ptr()); };
  const int64_t blocks = (threads + conv::kThreads - 1) / conv::kThreads;
  launch_with(0, blocks, conv::kThreads,
              [&] { conv::convolution_forward<T, N, taps>(call, data(out), threads); });
  launch_with(0, blocks, conv::kThreads, [&] {
    conv::convolution_backward<T, N, taps>(call, data(in[2]), data(x_gradient),
                                           static_cast<W*>(parts.data_ptr()), threads);
  });
  launch(static_cast<unsigned int>((taps * channels + 15) / 16), {16, 8, 1}, [&] {
    conv::sum_weight_parts<W, T, 16, 8>(static_cast<W*>(parts.data_ptr()), data(of_weight), runs, channels,
                                        taps);
  });
  expect_near_plain({out, x_gradient, of_weight}, plain_convolution(in, documents), tolerance);
}

TEST(DeltaNetKernel, ConvolutionEqualsThePlainForm) {
  for (const bool packed : {false, true}) {
    check_convolution<double, 2, 4>(2, 150, 24, at::kDouble, packed, kDouble);
    check_convolution<double, 1, 3>(2, 65, 7, at::kDouble, packed, kDouble);
    check_convolution<double, 1, 7>(1, 64, 5, at::kDouble, packed, kDouble);
    check_convolution<float, 4, 4>(1, 130, 40, at::kFloat, packed, kFloat);
    check_convolution<float, 1, 1>(1, 3, 40, at::kFloat, packed, kFloat);
    check_convolution<__nv_bfloat16, 4, 4>(2, 70, 40, at::kBFloat16, packed, 1.0 / 64);
    check_convolution<__half, 4, 4>(1, 5, 8, at::kHalf, packed, 1.0 / 256);
  }
}
}  // namespace

#pragma once
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "model/delta_rule.h"
#include "optimizations/fused_delta_net/pairs.h"

/// The fused operators of Gated DeltaNet and their plain forms, with comparisons on a CPU and a GPU.
namespace optrush::testing {
struct DeltaNetSizes {
  int64_t batch = 2, key_heads = 2, value_heads = 4, positions = 150, key_width = 12, value_width = 20;
};
// one position, less than a chunk, a chunk, three chunks; widths that fill vectors, and others
inline const DeltaNetSizes kRuleSizes[] = {
    {.positions = 1},
    {.batch = 1, .key_heads = 1, .value_heads = 1, .positions = 39},
    {.positions = 64, .key_width = 16, .value_width = 16},
    {},
    {.batch = 1, .key_heads = 3, .value_heads = 3, .key_width = 5, .value_width = 3},
    {.batch = 0}};
inline const std::pair<at::ScalarType, double> kDeltaNetTolerances[] = {
    {at::kDouble, 1e-11}, {at::kFloat, 2e-5}, {at::kBFloat16, 1.0 / 64}, {at::kHalf, 1.0 / 256}};

/// Documents of lengths that cross the borders of chunks.
inline Tensor documents_of(int64_t batch, int64_t positions) {
  const Tensor numbers = at::arange(positions, at::kInt);
  Tensor ids = at::zeros({positions}, at::kInt);
  for (const int64_t border : {3, 31, 60, 64, 130}) ids = ids + numbers.gt(border).to(at::kInt);
  return ids.repeat({batch, 1}).contiguous();
}

inline Tensors with_documents(Tensors in, const Tensor& documents) {
  if (documents.defined()) in.push_back(documents);
  return in;
}

/// {q, k, v, log_decay, beta}: heads in memory as linears write them.
inline Tensors rule_inputs(const DeltaNetSizes& s, at::ScalarType type) {
  at::manual_seed(3);
  const auto wide = type == at::kDouble ? at::kDouble : at::kFloat;
  const auto heads = [&](int64_t count, int64_t width) {
    return at::randn({s.batch, s.positions, count, width}, at::kDouble).to(type).transpose(1, 2);
  };
  const auto gates = [&] {
    return at::rand({s.batch, s.positions, s.value_heads}, at::kDouble).to(wide).transpose(1, 2);
  };
  return {heads(s.key_heads, s.key_width), heads(s.key_heads, s.key_width),
          heads(s.value_heads, s.value_width), gates() * -0.2, gates()};
}
inline Tensor plain_rule(const Tensors& in, const Tensor& documents) {
  return plain::gated_delta_rule(
      {.q = in[0], .k = in[1], .v = in[2], .log_decay = in[3], .beta = in[4], .documents = documents});
}
inline Tensor fused_rule(const Tensors& in, const Tensor& documents) {
  return call(fused::delta_rule(), with_documents(in, documents)).front();
}

/// {x, weight}
inline Tensors convolution_inputs(const DeltaNetSizes& s, at::ScalarType type) {
  at::manual_seed(4);
  return {at::randn({s.batch, s.positions, s.value_width}, at::kDouble).to(type),
          at::randn({s.value_width, 1, 4}, at::kDouble).to(type)};
}
inline Tensor plain_convolution(const Tensors& in, const Tensor& documents) {
  return at::silu(plain::causal_convolution(in[0], in[1], documents));
}
inline Tensor fused_convolution(const Tensors& in, const Tensor& documents) {
  return call(fused::convolution(), with_documents(in, documents)).front();
}

using Operator = Tensor (*)(const Tensors&, const Tensor& documents);
struct DeltaNetOperator {
  const char* name;
  Tensors (*inputs)(const DeltaNetSizes&, at::ScalarType);
  Operator plain, fused;
};
inline const DeltaNetOperator kDeltaNetOperators[] = {
    {"delta rule", rule_inputs, plain_rule, fused_rule},
    {"convolution", convolution_inputs, plain_convolution, fused_convolution}};

/// The output and the gradients of all inputs, for the same random gradient of the output.
inline Tensors results(Operator run, const Tensors& given, const Tensor& documents, at::ScalarType type) {
  Tensors in;
  for (const Tensor& x : given) in.push_back(x.detach().requires_grad_());
  const Tensor out = run(in, documents);
  at::manual_seed(5);
  (out * at::randn(out.sizes(), at::kDouble).to(type).to(out.options())).sum(at::kDouble).backward();
  Tensors all = {out.detach()};
  for (const Tensor& x : in) all.push_back(x.grad());
  return all;
}

/// The fused form in `type` on `device` beside the plain one in fp64 on a CPU, on the same numbers.
inline void expect_like_plain(const DeltaNetOperator& c, const DeltaNetSizes& sizes, at::ScalarType type,
                              double tolerance, bool packed, at::Device device = at::kCPU) {
  const Tensors in = c.inputs(sizes, type);
  Tensors wide, there;
  for (const Tensor& x : in) {
    wide.push_back(x.to(at::kDouble));
    there.push_back(x.to(device));
  }
  const Tensor documents = packed ? documents_of(sizes.batch, sizes.positions) : Tensor();
  const Tensors got = results(c.fused, there, packed ? documents.to(device) : Tensor(), type),
                expected = results(c.plain, wide, documents, type);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(got[i].sizes(), expected[i].sizes());
    EXPECT_EQ(got[i].scalar_type(),
              i == 0 ? in[c.plain == plain_rule ? 2 : 0].scalar_type() : in[i - 1].scalar_type());
    if (got[i].numel() == 0) continue;
    const double scale = std::max(1.0, expected[i].abs().max().item<double>());
    EXPECT_LE((got[i].cpu().to(at::kDouble) - expected[i]).abs().max().item<double>(), tolerance * scale)
        << i;
  }
}
}  // namespace optrush::testing

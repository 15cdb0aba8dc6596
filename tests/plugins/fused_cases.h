#pragma once
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "model/operators.h"
#include "pairs.h"

/// The fused pairs and their plain forms, with comparisons on a CPU and a GPU.
namespace optrush::testing {
inline constexpr double kEps = 1e-5;
using Function = std::function<Tensors(const Tensors&)>;

inline Tensors default_norm(const Tensors& in) {
  return {in[0], plain::norm(in[0], in[1], {}, {.eps = kEps})};
}
inline Tensors default_add_norm(const Tensors& in) {
  const Tensor sum = in[0] + in[1];
  return {sum, plain::norm(sum, in[2], {}, {.eps = kEps})};
}
inline Tensors default_position(const Tensors& in) {
  return {plain::rotate(in[0], in[2], in[3]), plain::rotate(in[1], in[2], in[3])};
}
inline Tensors default_swiglu(const Tensors& in) { return {plain::swiglu(in[0], in[1])}; }
inline Tensors default_geglu(const Tensors& in) {
  return {plain::geglu(in[0], in[1], Activation::gelu_tanh)};
}

/// A pair and its plain form. The tables of `position` have no gradients.
struct Case {
  std::string name;
  Differentiable pair;
  Function plain;
  size_t derived;
};
inline std::vector<Case> cases() {
  return {{"norm", fused::norm(kEps), default_norm, 2},
          {"add_norm", fused::add_norm(kEps), default_add_norm, 3},
          {"position", fused::position(), default_position, 2},
          {"swiglu", fused::swiglu(), default_swiglu, 2},
          {"geglu", fused::geglu(), default_geglu, 2}};
}

inline Tensor random(at::IntArrayRef sizes, at::ScalarType type) {
  return at::randn(sizes, at::kDouble).to(type);
}

/// Inputs of a case: a batch of 2 by 3 tokens of `width`, four query heads over two key heads.
inline Tensors inputs(const Case& c, at::ScalarType type, int64_t width, int64_t batch = 2) {
  const auto wide = type == at::kDouble ? at::kDouble : at::kFloat;
  if (c.name == "position") {
    const int64_t even = (width + 1) / 2 * 2;
    const auto heads = [&](int64_t count) { return random({batch, 3, count, even}, type).transpose(1, 2); };
    const Tensor angles = random({batch, 1, 3, even}, wide);
    return {heads(4), heads(2), angles.cos(), angles.sin()};
  }
  if (c.name == "swiglu" || c.name == "geglu")
    return {random({batch, 3, width}, type) * 3, random({batch, 3, width}, type)};
  Tensors in = {random({batch, 3, width}, type)};
  if (c.name == "add_norm") in.push_back(random({batch, 3, width}, type));
  in.push_back(random({width}, type));
  return in;
}

struct Outcome {
  Tensors outputs, gradients;
};
/// Runs forward and backward with fixed random output gradients.
inline Outcome outcome(const Function& function, const Tensors& given, size_t derived) {
  Tensors in;
  for (size_t i = 0; i < given.size(); ++i) in.push_back(given[i].detach().requires_grad_(i < derived));
  Outcome result;
  result.outputs = function(in);
  at::manual_seed(11);
  Tensor sum;
  for (const Tensor& out : result.outputs) {
    const Tensor part = (out * random(out.sizes(), out.scalar_type()).to(out.device())).sum(at::kDouble);
    sum = sum.defined() ? sum + part : part;
  }
  sum.backward();
  for (size_t i = 0; i < derived; ++i) result.gradients.push_back(in[i].grad());
  return result;
}

inline void expect_near(const Tensors& got, const Tensors& expected, double tolerance,
                        const std::string& what) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].sizes(), expected[i].sizes()) << what << ' ' << i;
    EXPECT_EQ(got[i].scalar_type(), expected[i].scalar_type()) << what << ' ' << i;
    if (got[i].numel() == 0) continue;
    const Tensor a = got[i].to(at::kDouble), b = expected[i].to(at::kDouble);
    const double scale = std::max(1.0, b.abs().max().item<double>());
    EXPECT_LE((a - b).abs().max().item<double>(), tolerance * scale) << what << ' ' << i;
  }
}

/// Compares the pair on `device` with the plain form in fp64 on the same numbers. Results are converted to
/// their type.
inline void expect_like_plain(const Case& c, const Tensors& in, double tolerance,
                              at::Device device = at::kCPU) {
  const auto type = in[0].scalar_type();
  Tensors there, wide;
  for (const Tensor& each : in) {
    there.push_back(each.to(device));
    wide.push_back(each.to(at::kDouble));
  }
  Outcome fused = outcome([&](const Tensors& given) { return call(c.pair, given); }, there, c.derived);
  const auto rounded = [&](const Tensors& given) {
    Tensors narrow;
    for (const Tensor& out : c.plain(given)) narrow.push_back(out.to(type));
    return narrow;
  };
  Outcome plain = outcome(rounded, wide, c.derived);
  for (size_t i = 0; i < c.derived; ++i) plain.gradients[i] = plain.gradients[i].to(in[i].scalar_type());
  for (Tensors* list : {&fused.outputs, &fused.gradients})
    for (Tensor& each : *list) each = each.cpu();
  expect_near(fused.outputs, plain.outputs, tolerance, "output");
  expect_near(fused.gradients, plain.gradients, tolerance, "gradient");
}

/// The error of one rounding of the result: half a unit in the last place, more for sums of rounded values.
inline constexpr std::pair<at::ScalarType, double> kTypes[] = {
    {at::kDouble, 1e-12}, {at::kFloat, 1e-5}, {at::kBFloat16, 1.0 / 128}, {at::kHalf, 1.0 / 1024}};
// 64 fills vectors, 67 and 3 have remainders, 1 is less than any vector.
inline constexpr int64_t kWidths[] = {64, 67, 3, 1, 256};
}  // namespace optrush::testing

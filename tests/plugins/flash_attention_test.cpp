// flash_attention: the order of kernels, no copies of tensors around it, and its log-sum-exp, halves and
// packed documents against the formula.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <tuple>

#include "flash_attention/cpu/attention.h"
#include "fused_kernel.h"
#include "kernel_order.h"
#include "measure/step_costs.h"
#include "model/binder.h"
#include "model/operators.h"
#include "optrush/scopes.h"
#include "support/attention_ring.h"
#include "support/error_of.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
using ::testing::ElementsAre;

TEST(FlashAttention, PrefersCudnnOnHopperAndFlashWhereItIsFaster) {
  EXPECT_THAT(kernel_order("sm_90"), ElementsAre("cudnn", "flash", "efficient"));
  for (const char* architecture : {"sm_80", "sm_86", "sm_89", "sm_120"})
    EXPECT_EQ(kernel_order(architecture).front(), "flash") << architecture;
  for (const char* architecture : {"sm_75", "sm_100", "sm_103"})
    EXPECT_TRUE(kernel_order(architecture).empty()) << architecture;
}

TEST(FlashAttention, KernelsThatNeedAHeadWidthOfEightAreNamed) {
  const Tensor x = at::randn({1, 2, 4, 12});
  const auto refusal = [&](flash::Kernel kernel) -> std::string {
    try {
      return error_of([&] { flash::FusedKernel(kernel, nullptr).forward(x, x, x, {}); });
    } catch (const std::exception&) {
      return "";  // LibTorch's kernels are for GPUs
    }
  };
  for (const auto kernel : {flash::Kernel::flash, flash::Kernel::cudnn})
    EXPECT_THAT(refusal(kernel), ::testing::HasSubstr("no log-sum-exp for head width 12"));
  for (const auto kernel : {flash::Kernel::efficient, flash::Kernel::cpu}) EXPECT_EQ(refusal(kernel), "");
}

/// (B, H, S, K) in memory as (B, S, H, K), except axes of one element. Linears before and after use it
/// without a copy.
bool is_heads_of_rows(const Tensor& x) { return x.transpose(1, 2).is_contiguous(); }

TEST(FlashAttention, InputsAndGradientsNeedNoCopies) {
  for (const int64_t batch : {1, 4})
    for (const bool fused_position : {false, true}) {
      SCOPED_TRACE("batch " + std::to_string(batch) + (fused_position ? ", fused position" : ""));
      RunSpec spec = nano_spec({{"flash_attention", Json::object()}});
      if (fused_position) spec.plugins.push_back({"fused_kernels", {{"kernels", {"position"}}}});
      spec.train.micro_batch = batch;
      int64_t outputs = 0, gradients = 0;
      Trained trained(spec, [&](Recipe& recipe) {
        recipe.ops.attention.wrap(Phase::adapter, [&](auto inner) {
          return [&, inner](const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args) {
            const AttentionOut result = inner(q, k, v, args);
            for (const Tensor& each : {q, k, v, result.out}) {
              EXPECT_TRUE(is_heads_of_rows(each)) << each.strides();
              ++outputs;
              each.register_hook([&](const Tensor& gradient) {
                EXPECT_TRUE(is_heads_of_rows(gradient)) << gradient.strides();
                ++gradients;
              });
            }
            return result;
          };
        });
      });
      trained.train();
      EXPECT_EQ(outputs, 2 * 3 * 4);
      EXPECT_EQ(gradients, outputs);
    }
}

struct HeadSizes {
  int64_t batch, heads, groups, positions, width;
};

/// q, k and v, in memory as (B, S, H, K) or as (B, H, S, K).
Tensors heads_of(const HeadSizes& sizes, bool rows_first, double spread = 1) {
  Tensors made;
  for (const int64_t heads : {sizes.heads, sizes.groups, sizes.groups})
    made.push_back(spread *
                   (rows_first ? at::randn({sizes.batch, sizes.positions, heads, sizes.width}).transpose(1, 2)
                               : at::randn({sizes.batch, heads, sizes.positions, sizes.width})));
  return made;
}

/// The output, and the gradients of a weighted sum of it.
Tensors outcome_of(const std::function<Tensor(const Tensors&)>& attention, const Tensors& given,
                   const Tensor& weights) {
  Tensors in;
  for (const Tensor& each : given) in.push_back(each.detach().requires_grad_());
  const Tensor out = attention(in);
  (out * weights.to(out.scalar_type())).sum().backward();
  return {out.detach(), in[0].grad(), in[1].grad(), in[2].grad()};
}

/// The largest error of the output or of a gradient, relative to the largest value or 1. Sequences end inside
/// of a tile, heads have separate or shared keys, and scores are up to `spread` times as large as usual.
double largest_error(at::ScalarType type, double spread, int64_t window, bool widens = false) {
  const double scale = 0.3;
  const Differentiable own = flash::cpu::attention({scale, window, widens});
  const AttentionArgs args{.scale = scale, .window = window};
  at::manual_seed(3);
  double largest = 0;
  for (const HeadSizes& sizes : {HeadSizes{2, 4, 2, 70, 16},
                                 {1, 4, 4, 129, 32},
                                 {3, 6, 2, 64, 12},
                                 {2, 8, 2, 1, 8},
                                 {1, 2, 2, 600, 64},
                                 {1, 3, 1, 31, 10},
                                 {4, 2, 1, 17, type == at::kFloat ? 7 : 6}})
    for (const bool rows_first : {false, true}) {
      Tensors in, wide;
      for (const Tensor& each : heads_of(sizes, rows_first, std::sqrt(spread))) in.push_back(each.to(type));
      for (const Tensor& each : in) wide.push_back(each.to(at::kDouble));
      const Tensor weights = at::randn(in[0].sizes()).to(type);
      const Tensors found = outcome_of([&](const Tensors& x) { return call(own, x).front(); }, in, weights);
      const Tensors exact = outcome_of(
          [&](const Tensors& x) { return plain::attention(x[0], x[1], x[2], args).out; }, wide, weights);
      EXPECT_TRUE(is_heads_of_rows(found[0]));
      for (size_t i = 0; i < exact.size(); ++i) {
        EXPECT_EQ(found[i].scalar_type(), type);
        const double size = std::max(1.0, exact[i].abs().max().item<double>());
        largest = std::max(largest, (found[i].to(at::kDouble) - exact[i]).abs().max().item<double>() / size);
      }
    }
  return largest;
}

/// With many threads, several of them share the tiles of a key/value head.
class Threads {
 public:
  explicit Threads(int count) { at::set_num_threads(count); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads() { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

// With a window of 20 keys, rows of a tile begin inside of vectors and see keys of two tiles.
constexpr std::array<int64_t, 4> kWindows = {0, 1, 20, 100};

TEST(CausalAttention, MatchesTheFormulaInDouble) {
  for (const int count : {1, 2, 12})
    for (const int64_t window : kWindows) {
      const Threads threads(count);
      for (const double spread : {1.0, 30.0})
        EXPECT_LE(largest_error(at::kFloat, spread, window), 2e-5 * spread) << window;
    }
}

void expect_the_formula_in_bf16(bool widens) {
  for (const int count : {1, 2, 12})
    for (const int64_t window : kWindows) {
      const Threads threads(count);
      for (const double spread : {1.0, 30.0})
        EXPECT_LE(largest_error(at::kBFloat16, spread, window, widens), 2e-2) << window;
    }
}

TEST(CausalAttention, MatchesTheFormulaInBf16) {
  if (!__builtin_cpu_supports("avx512bf16")) GTEST_SKIP() << "this processor does not multiply bf16";
  expect_the_formula_in_bf16(/*widens=*/false);
}

TEST(CausalAttention, MatchesTheFormulaInBf16MultipliedInFp32) {
  if (!flash::cpu::supports(at::kBFloat16)) GTEST_SKIP() << "this processor has no AVX-512";
  expect_the_formula_in_bf16(/*widens=*/true);
}

TEST(CausalAttention, IsBitReproducibleAndIgnoresLaterPositions) {
  const Differentiable own = flash::cpu::attention({0.2});
  const Threads threads(12);
  const HeadSizes sizes{2, 4, 2, 150, 16};
  const Tensors in = heads_of(sizes, true);
  const Tensor weights = at::randn(in[0].sizes());
  const auto run = [&](const Tensors& x) { return call(own, x).front(); };
  const Tensors once = outcome_of(run, in, weights), again = outcome_of(run, in, weights);
  for (size_t i = 0; i < once.size(); ++i) EXPECT_TRUE(once[i].equal(again[i])) << i;
  Tensors other = {in[0], in[1].clone(), in[2].clone()};
  other[1].narrow(2, 100, 50).fill_(7);
  other[2].narrow(2, 100, 50).fill_(-9);
  const Tensor changed = call(own, other).front();
  EXPECT_TRUE(changed.narrow(2, 0, 100).equal(once[0].narrow(2, 0, 100)));
  EXPECT_FALSE(changed.narrow(2, 100, 50).equal(once[0].narrow(2, 100, 50)));
}

TEST(CausalAttention, IgnoresPositionsBeforeTheWindow) {
  const Differentiable own = flash::cpu::attention({.scale = 0.2, .window = 33});
  const Tensors in = heads_of({2, 4, 2, 150, 16}, true);
  const auto changed_before = [&](int64_t position) {
    Tensors other = {in[0], in[1].clone(), in[2].clone()};
    other[1].narrow(2, 0, position).fill_(7);
    other[2].narrow(2, 0, position).fill_(-9);
    return call(own, other).front();
  };
  const Tensor out = call(own, in).front(), changed = changed_before(50);
  EXPECT_TRUE(changed.narrow(2, 82, 68).equal(out.narrow(2, 82, 68)));
  EXPECT_FALSE(changed.select(2, 81).equal(out.select(2, 81)));
}

TEST(CausalAttention, CountsTheProductsOfAWindow) {
  const Tensors in = heads_of({2, 4, 2, 512, 16}, true);
  const auto flops = [&](int64_t window) {
    const Params none{};
    StepCosts costs(none, at::kCPU);
    flash::cpu::forward(in[0], in[1], in[2], {1, window});
    costs.stop();
    return costs.total().flops();
  };
  EXPECT_EQ(flops(0), 2.0 * 2 * 4 * 512 * 512 * 16);
  EXPECT_EQ(flops(512), flops(0));
  EXPECT_EQ(flops(128), flops(0) * (1 - 0.75 * 0.75));
}

TEST(CausalAttention, LeavesUnsupportedInputsToLibTorch) {
  if (!flash::cpu::supports(at::kFloat)) GTEST_SKIP() << "this processor has no AVX-512";
  const auto of = [](int64_t positions) { return heads_of({2, 4, 2, positions, 16}, true); };
  const Tensors in = of(512);
  const auto takes = [&](const AttentionArgs& args, at::ScalarType type = at::kFloat) {
    return flash::cpu::takes(in[0].to(type), in[1].to(type), in[2].to(type), args);
  };
  EXPECT_TRUE(takes({}));
  EXPECT_FALSE(takes({.causal = false}));
  EXPECT_TRUE(takes({.window = 8}));
  EXPECT_FALSE(takes({.causal = false, .window = 8}));
  EXPECT_FALSE(takes({}, at::kDouble));
  EXPECT_EQ(takes({}, at::kBFloat16), flash::cpu::supports(at::kBFloat16));
  EXPECT_FALSE(flash::cpu::takes(in[0].narrow(2, 0, 400), in[1], in[2], {})) << "fewer queries than keys";
  {
    const Threads threads(4096);
    EXPECT_FALSE(takes({})) << "too few tiles for all threads";
  }
  for (const int64_t positions : {32, 8200}) {
    const Tensors other = of(positions);
    EXPECT_FALSE(flash::cpu::takes(other[0], other[1], other[2], {})) << positions;
    EXPECT_EQ(flash::cpu::takes(other[0], other[1], other[2], {.window = 16}), positions > 8192) << positions;
    EXPECT_FALSE(flash::cpu::takes(other[0], other[1], other[2], {.window = positions})) << positions;
  }
}

TEST(CausalAttention, TrainsLikeThePlainForm) {
  const PluginUse autocast{"mixed_precision", {{"dtype", "bf16"}}};
  double hfu_of_whole = 0;
  for (const auto& [type, window] :
       {std::pair(at::kFloat, 0), {at::kFloat, 50}, {at::kBFloat16, 0}, {at::kBFloat16, 50}}) {
    if (!flash::cpu::supports(type)) GTEST_SKIP() << "this processor does not multiply " << type;
    SCOPED_TRACE(c10::toString(type));
    SCOPED_TRACE(window);
    const auto run = [&](bool fused) {
      RunSpec spec = nano_spec(type == at::kFloat ? std::vector<PluginUse>{} : std::vector{autocast});
      if (fused) spec.plugins.push_back({"flash_attention", Json::object()});
      spec.train.seq_len = 400;
      spec.train.micro_batch = 2;
      if (window != 0) spec.model.update({{"window", window}, {"full_attention_layers", {0}}});
      Trained trained(spec);
      const Json result = trained.train();
      const std::string notes = Json(trained.session().log().notes()).dump();
      EXPECT_EQ(notes.find("own kernel") != std::string::npos, fused);
      return result;
    };
    const Json plain = run(false), own = run(true);
    const double allowed = type == at::kFloat ? 1e-4 : 2e-2;
    for (size_t i = 0; i < losses(plain).size(); ++i) EXPECT_NEAR(losses(own)[i], losses(plain)[i], allowed);
    const auto hfu = [](const Json& result) { return result["flops_per_token"]["hfu"].get<double>(); };
    EXPECT_LT(hfu(own), hfu(plain)) << "half of the pairs are skipped and not counted";
    if (window == 0)
      hfu_of_whole = hfu(own);
    else
      EXPECT_LT(hfu(own), hfu_of_whole) << "the pairs outside of the window are not counted";
  }
}

TEST(FlashAttention, ReportsTheKernelAndTheReason) {
  const auto notes = [](Json options) {
    Trained trained(nano_spec({{"flash_attention", std::move(options)}}));
    trained.train();
    return Json(trained.session().log().notes()).dump();
  };
  EXPECT_NE(notes(Json::object()).find("attention runs the kernel 'flash' (auto)"), std::string::npos);
  EXPECT_NE(notes({{"kernel", "flash"}}).find("attention runs the kernel 'flash' (as asked)"),
            std::string::npos);
  EXPECT_THROW(notes({{"kernel", "cudnn"}}), Skip);
}

/// The attention of the first block.
class Resolved {
 public:
  explicit Resolved(Json options = Json::object()) : trained_(nano_spec({{"flash_attention", options}})) {}
  Ops::Attention::Fn attention() { return Binder(trained_.session().recipe()).attention(module()); }
  AttentionForwardBackward halves() {
    return Binder(trained_.session().recipe()).attention_forward_backward(module());
  }
  Json notes() { return trained_.session().log().notes(); }

 private:
  const Module& module() {
    for (const auto& child : trained_.session().units().at(1)->children)
      for (const Module& module : child->modules)
        if (module.role == "attention") return module;
    throw std::logic_error("a block without attention");
  }
  Trained trained_;
};

struct Precision {
  at::ScalarType type;
  double whole, ring;
};
constexpr std::array kPrecisions = {Precision{at::kDouble, 1e-12, 1e-10}, Precision{at::kFloat, 1e-5, 1e-5},
                                    Precision{at::kBFloat16, 3e-2, 5e-2}};

AttentionInputs in_double(AttentionInputs inputs) {
  for (Tensor* tensor : {&inputs.q, &inputs.k, &inputs.v, &inputs.gradient, &inputs.lse_gradient})
    if (tensor->defined()) *tensor = tensor->to(at::kDouble);
  return inputs;
}

TEST(FlashAttentionHalves, RingEqualsTheWhole) {
  Resolved resolved;
  const auto halves = resolved.halves();
  for (const auto& [type, of_whole, of_ring] : kPrecisions)
    for (const auto& shape : {AttentionShape{.causal = true}, AttentionShape{.groups = 4, .causal = true},
                              AttentionShape{.causal = false}, AttentionShape{.keys = 13, .causal = false},
                              AttentionShape{.queries = 264, .keys = 264}}) {
      SCOPED_TRACE(std::string(c10::toString(type)) + (shape.causal ? " causal" : ""));
      const auto inputs = attention_inputs(shape, type);
      const auto expected = attention_by_formula(in_double(inputs));
      const auto whole = attention_by_forward_backward(halves, inputs);
      EXPECT_LT(difference(whole, expected), of_whole);
      for (const Tensor& each : {whole.out, whole.gradients[0], whole.gradients[1], whole.gradients[2]})
        EXPECT_EQ(each.scalar_type(), type);
      for (const int64_t parts : {2, 3, 4})
        EXPECT_LT(difference(attention_by_ring(halves, inputs, parts), expected), of_ring) << parts;
    }
  EXPECT_THAT(resolved.notes().dump(), ::testing::HasSubstr("the kernel 'flash'"));
}

TEST(FlashAttentionHalves, ApplyCausalAndNonCausalWindows) {
  Resolved resolved;
  const auto halves = resolved.halves();
  for (const auto& precision : kPrecisions)
    for (const bool causal : {true, false})
      for (const auto& [positions, windows] :
           {std::pair(AttentionShape{}.queries, std::vector<int64_t>{1, 5, 7, 12}), {264, {1, 20, 100}}})
        for (const int64_t window : windows) {
          auto inputs =
              attention_inputs({.queries = positions, .keys = positions, .causal = causal}, precision.type);
          inputs.args.window = window;
          EXPECT_LT(difference(attention_by_forward_backward(halves, inputs),
                               attention_by_formula(in_double(inputs))),
                    precision.whole)
              << window << (causal ? " causal" : "");
        }
}

/// The output, lse, and gradients by autograd.
Attended attend(Resolved& resolved, const AttentionInputs& in) {
  const auto leaf = [](const Tensor& x) { return x.detach().clone().requires_grad_(); };
  const Tensor q = leaf(in.q), k = leaf(in.k), v = leaf(in.v);
  AttentionArgs args = in.args;
  args.lse = true;
  const auto result = resolved.attention()(q, k, v, args);
  Tensor sum = (result.out * in.gradient).sum();
  if (in.lse_gradient.defined()) sum = sum + (result.lse * in.lse_gradient).sum();
  sum.backward();
  return {result.out.detach(), result.lse.detach(), {q.grad(), k.grad(), v.grad()}};
}

TEST(FlashAttention, ReturnsItsLogSumExp) {
  Resolved resolved;
  for (const auto& [type, of_whole, of_ring] : kPrecisions) {
    const auto inputs = attention_inputs({}, type);
    EXPECT_LT(difference(attend(resolved, inputs), attention_by_formula(in_double(inputs))), of_whole)
        << type;
  }
}

/// The plugin's own kernel, LibTorch's, and both in packed rows; windows; several heads of a key.
TEST(FlashAttention, TheLogSumExpHasADerivative) {
  Resolved resolved;
  for (const auto& [type, of_whole, of_ring] : kPrecisions)
    for (const auto& [positions, lengths, window] : {std::tuple(12, std::vector<int64_t>{}, 0),
                                                     {12, {5, 7, 1, 10, 1}, 5},
                                                     {192, {}, 0},
                                                     {192, {}, 20},
                                                     {192, {90, 20, 82, 1, 65, 118, 8}, 20}})
      for (const bool only_lse : {false, true}) {
        SCOPED_TRACE(std::string(c10::toString(type)) + ", " + std::to_string(positions) +
                     " positions, window " + std::to_string(window) + (lengths.empty() ? "" : ", packed"));
        auto inputs = attention_inputs({.queries = positions, .keys = positions}, type);
        inputs.args.window = window;
        if (!lengths.empty()) inputs.args.segments = segments_of(lengths, 2);
        inputs.lse_gradient = at::randn({2, 4, positions}, type == at::kDouble ? at::kDouble : at::kFloat);
        if (only_lse) inputs.gradient = at::zeros_like(inputs.gradient);
        const auto expected = attention_by_formula(in_double(inputs));
        EXPECT_LT(difference(attend(resolved, inputs), expected), 2 * of_whole);
        EXPECT_LT(difference(attention_by_forward_backward(resolved.halves(), inputs), expected),
                  2 * of_whole);
        if (!lengths.empty() || window != 0) continue;
        for (const int64_t parts : {2, 3})
          EXPECT_LT(difference(attention_by_ring(resolved.halves(), inputs, parts), expected), 2 * of_ring);
      }
}

TEST(FlashAttention, CastsInputsToTheTypeOfAutocast) {
  Resolved resolved;
  auto inputs = attention_inputs({}, at::kFloat);
  inputs.v = inputs.v.to(at::kBFloat16);  // as from a linear, if the rotation is in fp32
  inputs.args.lse = true;
  const Autocast autocast(at::kCPU, at::kBFloat16);
  EXPECT_EQ(resolved.attention()(inputs.q, inputs.k, inputs.v, inputs.args).out.scalar_type(), at::kBFloat16);
}

TEST(FlashAttention, PackedDocumentsEqualSeparateDocuments) {
  Resolved resolved;
  const std::vector<int64_t> few = {5, 7, 1, 10, 1},
                             long_enough_for_the_own_kernel = {90, 20, 82, 1, 65, 118, 8};
  for (const auto& [type, of_whole, of_ring] : kPrecisions)
    for (const bool causal : {true, false})
      for (const auto& [lengths, window] :
           {std::pair(few, 0), {long_enough_for_the_own_kernel, 0}, {long_enough_for_the_own_kernel, 20}}) {
        const int64_t positions = std::accumulate(lengths.begin(), lengths.end(), int64_t{0}) / 2;
        auto inputs = attention_inputs({.queries = positions, .keys = positions, .causal = causal}, type);
        inputs.args.segments = segments_of(lengths, 2);
        inputs.args.window = window;
        const auto expected = attention_by_formula(in_double(inputs));
        EXPECT_FALSE(resolved.attention()(inputs.q, inputs.k, inputs.v, inputs.args).lse.defined());
        EXPECT_LT(difference(attend(resolved, inputs), expected), of_whole) << type;
        EXPECT_LT(difference(attention_by_forward_backward(resolved.halves(), inputs), expected), of_whole)
            << type;
      }
  const bool own = flash::cpu::supports(at::kFloat);
  EXPECT_EQ(resolved.notes().dump().find("own kernel") != std::string::npos, own);
}

/// Graphs of cuDNN compute them, if the build has these.
TEST(FlashAttention, CudnnOffersPackedDocumentsIfItsGraphsAreBuilt) {
  const auto demanding = [](const Json& options, const Feature& feature) {
    return error_of([&] {
      Trained(nano_spec({{"flash_attention", options}}),
              [&](Recipe& recipe) { recipe.ops.attention.demand(feature); });
    });
  };
  for (const Feature& feature : {feature::lse, feature::segments, feature::fp64})
    EXPECT_EQ(demanding({{"kernel", "flash"}}, feature), "") << feature.name;
  const char* answer = flash::cudnn::built() ? "exists on GPUs only" : "segments";
  EXPECT_THAT(demanding({{"kernel", "cudnn"}}, feature::segments), ::testing::HasSubstr(answer));
}
}  // namespace
}  // namespace optrush::testing

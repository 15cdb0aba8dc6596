// fused_projections. The forward gives the bits of separate linears, and the backward their gradients in
// fewer passes. Parameters and states are separate matrices.
#include <ATen/Functions.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <map>

#include "first_step.h"
#include "joined_memory/joined_gradients.h"
#include "linear_groups/groups.h"
#include "pairs.h"
#include "projections.h"
#include "rows_of_one.h"
#include "spec/spec_json.h"
#include "support/gradcheck.h"
#include "support/mlp_spec.h"

namespace optrush::testing {
namespace {
using namespace fused_projections;

const PluginUse kFused = {"fused_projections", Json::object()};
const PluginUse kBf16 = {"mixed_precision", {{"dtype", "bf16"}}};

/// x (2, 5, D) and matrices with these numbers of rows. If `together`, they are rows of one matrix.
Tensors projection_inputs(const std::vector<int64_t>& rows, int64_t columns, at::ScalarType type,
                          bool together) {
  int64_t all = 0;
  for (const int64_t count : rows) all += count;
  const Tensor whole = at::randn({all, columns}, type);
  Tensors in = {at::randn({2, 5, columns}, type)};
  int64_t row = 0;
  for (const int64_t count : rows) {
    const Tensor part = whole.narrow(0, row, count);
    in.push_back(together ? part.detach() : part.clone());
    row += count;
  }
  for (Tensor& tensor : in) tensor.requires_grad_();
  return in;
}

Wanted all_of(const Tensors& in) { return {.x = true, .matrices = std::vector<bool>(in.size() - 1, true)}; }

Tensors separate_linears(const Tensors& in) {
  Tensors out;
  for (size_t i = 1; i < in.size(); ++i) out.push_back(at::linear(in[0], in[i]));
  return out;
}

/// The outputs, and the gradients of a weighted sum of them.
std::pair<Tensors, Tensors> outputs_and_gradients(const std::function<Tensors(const Tensors&)>& function,
                                                  const Tensors& in, const Tensors& weights) {
  Tensors out = function(in);
  Tensor sum;
  for (size_t i = 0; i < out.size(); ++i) {
    const Tensor part = (out[i] * weights[i]).sum();
    sum = sum.defined() ? sum + part : part;
  }
  sum.backward();
  Tensors gradients;
  for (const Tensor& input : in) {
    gradients.push_back(input.grad().clone());
    input.mutable_grad().reset();
  }
  return {out, gradients};
}

double relative(const Tensor& got, const Tensor& expected) {
  return ((got - expected).abs().max() / expected.abs().max().clamp_min(1e-30)).item<double>();
}

/// q, k, v with few key/value heads are joined. gate, up are not.
const std::vector<std::vector<int64_t>> kShapes = {{16, 8, 8}, {32, 32}, {16, 16, 16}};

TEST(FusedProjections, ForwardIsBitEqualAndBackwardMatchesSeparateLinears) {
  for (const auto& rows : kShapes)
    for (const bool together : {false, true}) {
      SCOPED_TRACE(std::to_string(rows[0]) + (together ? " together" : " apart"));
      const Tensors in = projection_inputs(rows, 16, at::kFloat, together);
      Tensors weights;
      for (const int64_t count : rows) weights.push_back(at::randn({2, 5, count}));
      const Differentiable op = make_projections(all_of(in));
      const auto [out, gradients] =
          outputs_and_gradients([&](const Tensors& given) { return call(op, given); }, in, weights);
      const auto [expected_out, expected] = outputs_and_gradients(separate_linears, in, weights);
      const bool joins = joining_pays(rows[0] + rows[1] + (rows.size() > 2 ? rows[2] : 0), 16,
                                      static_cast<int64_t>(rows.size()));
      EXPECT_EQ(joins, rows[0] == 16 && rows[1] == 8);
      for (size_t i = 0; i < out.size(); ++i) EXPECT_TRUE(at::equal(out[i], expected_out[i])) << i;
      for (size_t i = 0; i < gradients.size(); ++i) {
        EXPECT_LE(relative(gradients[i], expected[i]), 1e-6) << i;
        if (i > 0 && !joins) {
          EXPECT_TRUE(at::equal(gradients[i], expected[i])) << i;
        }
      }
    }
}

TEST(FusedProjections, PassGradcheck) {
  for (const auto& rows : kShapes)
    for (const bool together : {false, true}) {
      const Tensors in = projection_inputs(rows, 16, at::kDouble, together);
      const Differentiable op = make_projections(all_of(in));
      gradcheck([&](const Tensors& given) { return call(op, given); }, in);
      // An unused output has no gradient.
      const auto second = [&](const Tensors& given) {
        Tensors all = in;
        all[0] = given[0], all[2] = given[1];
        return Tensors{call(op, all).at(1)};
      };
      gradcheck(second, {in[0], in[2]});
    }
}

/// Counts the calls of each operator during its lifetime. Callbacks of RecordFunction have no context.
class Calls {
 public:
  Calls() {
    counted().clear();
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction& fn) -> std::unique_ptr<at::ObserverContext> {
          ++counted()[fn.name()];
          return nullptr;
        }).scopes({at::RecordScope::FUNCTION}));
  }
  ~Calls() { at::removeCallback(handle_); }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;
  int64_t of(const std::string& name) const { return counted()[name]; }

 private:
  static std::map<std::string, int64_t>& counted() {
    static std::map<std::string, int64_t> counts;
    return counts;
  }
  at::CallbackHandle handle_ = 0;
};

struct Made {
  int64_t products = 0, joins = 0, copies = 0;
  bool operator==(const Made&) const = default;
};

/// Gradients of inputs of the projections, through `consumer` of their outputs. `made`: by the backward.
Tensors gradients_through(const std::function<Tensors(const Tensors&)>& projections,
                          const std::function<Tensor(const Tensors&)>& consumer, const Tensors& in,
                          Made& made) {
  const Tensor loss = consumer(projections(in));
  const Calls calls;  // on a CPU the backward runs in this thread
  loss.backward();
  made = {calls.of("aten::mm"), calls.of("aten::cat"), calls.of("aten::copy_")};
  Tensors gradients;
  for (const Tensor& input : in) {
    gradients.push_back(input.grad().clone());
    input.mutable_grad().reset();
  }
  return gradients;
}

Tensor gated(const Tensors& out) { return call(fused::swiglu(), {out[0], out[1]})[0].square().sum(); }

/// q, k and v of heads of 8, of which q and k are rotated.
Tensor rotated(const Tensors& out) {
  const auto heads = [](const Tensor& x) { return x.view({2, 5, -1, 8}).transpose(1, 2); };
  const Tensor angles = at::arange(40, out[0].options().requires_grad(false)).view({1, 1, 5, 8});
  const Tensors both = call(fused::position(), {heads(out[0]), heads(out[1]), angles.cos(), angles.sin()});
  return both[0].square().sum() + both[1].pow(3).sum() + heads(out[2]).square().sum();
}

TEST(FusedProjections, GradientsThatAConsumerWritesTogetherAreMultipliedAtOnceWithoutACopy) {
  struct Case {
    std::vector<int64_t> rows;
    std::function<Tensor(const Tensors&)> consumer;
    int64_t copies;  // of gradients that the consumer does not write
  };
  for (const Case& one : {Case{{32, 32}, gated, 0}, Case{{16, 8, 8}, rotated, 1}})
    for (const bool together : {false, true}) {
      SCOPED_TRACE(std::to_string(one.rows.size()) + (together ? " together" : " apart"));
      const Tensors in = projection_inputs(one.rows, 16, at::kDouble, together);
      const Differentiable op = make_projections(all_of(in));
      const auto fused = [&](const Tensors& given) { return call(op, given); };
      Made made, separate;
      const auto expected = gradients_through(separate_linears, one.consumer, in, separate);
      const auto got = gradients_through(fused, one.consumer, in, made);
      // One product for x (apart, a second one adds to it), and one for the matrices.
      EXPECT_EQ(made, (Made{.products = 2, .joins = 0, .copies = separate.copies + one.copies}));
      for (size_t i = 0; i < got.size(); ++i) EXPECT_LE(relative(got[i], expected[i]), 1e-13) << i;
      gradcheck([&](const Tensors& given) { return Tensors{one.consumer(fused(given))}; }, in);
    }
}

TEST(FusedProjections, AnOfferIsForTheOutputsAloneAndForOneBackward) {
  const Tensors outputs = {at::randn({3, 4}), at::randn({3, 2})};
  const Tensor places = offer_places(outputs);
  EXPECT_FALSE(joined_gradients(places, {at::ones({3, 4}), at::ones({3, 2})}).defined());  // no request
  EXPECT_FALSE(place_of_gradient(outputs[0].clone()).defined());
  EXPECT_FALSE(place_of_gradient(outputs[0] * 2).defined());
  EXPECT_FALSE(offer_for(outputs[0].clone()).defined());
  const Tensor second = place_of_gradient(offer_for(outputs[1]));
  second.fill_(7);
  const Tensor joined = joined_gradients(places, {at::ones({3, 4}), second});
  EXPECT_TRUE(at::equal(joined, at::tensor({1., 1., 1., 1., 7., 7.}).to(at::kFloat).expand({3, 6})));
  EXPECT_FALSE(joined_gradients(places, {at::ones({3, 4}), second}).defined());
  EXPECT_FALSE(place_of_gradient(outputs[0]).is_alias_of(joined)) << "the next backward has its own";
}

TEST(FusedProjections, FrozenMatricesGetNoGradientAndKeepNoInput) {
  const Tensors in = projection_inputs({16, 8, 8}, 16, at::kFloat, true);
  const Differentiable some = make_projections({.x = true, .matrices = {false, true, false}});
  const Tensors out = call(some, in);
  (out[0].sum() + out[1].sum() + out[2].sum()).backward();
  EXPECT_FALSE(in[1].grad().defined());
  EXPECT_TRUE(in[2].grad().defined());
  EXPECT_FALSE(in[3].grad().defined());
  const Differentiable none = make_projections({.x = true, .matrices = {false, false, false}});
  EXPECT_FALSE(none->forward(in).saved.at(0).defined());
  EXPECT_TRUE(some->forward(in).saved.at(0).defined());
}

TEST(FusedProjections, SharedInputIsMultipliedOnce) {
  PartsOfInput parts;
  int64_t made = 0;
  const auto make = [&] {
    ++made;
    return Tensors{at::zeros({1}), at::ones({1})};
  };
  const Tensor x = at::zeros({1}), y = at::zeros({1});
  parts.take(0, x, make);
  EXPECT_EQ(parts.take(1, x, make).item<double>(), 1);
  EXPECT_EQ(made, 1);
  parts.take(0, x, make);  // a second call of all parts
  parts.take(0, x, make);  // a call of one part
  EXPECT_EQ(made, 3);
  parts.take(1, y, make);  // another tensor
  EXPECT_EQ(made, 4);
  parts.drop();
  parts.take(0, y, make);
  EXPECT_EQ(made, 5);
}

TEST(FusedProjections, GradientsMatchSeparateLinearsInEveryStack) {
  const PluginUse lora = {"lora", {{"rank", 4}, {"target_modules", {"q_proj", "v_proj", "up_proj"}}}};
  for (const RunSpec& plain : {nano_spec(), mlp_spec()})
    for (const auto& stack : std::vector<std::vector<PluginUse>>{
             {},
             {{"lora", {{"rank", 4}, {"target_modules", {"up_proj"}}}}},
             {{"fused_kernels", Json::object()}},
             {{"swiglu_recompute", {{"level", 1}}}},
             {kCheckpointing},
             {{"activation_checkpointing", {{"policy", "selective"}, {"keep", {"linear"}}}}},
             {{"activation_checkpointing", {{"policy", "budget"}, {"budget", 0.6}}}}}) {
      if (plain.model_kind == "operator" && !stack.empty() && stack[0].name == "fused_kernels") continue;
      RunSpec spec = plain;
      spec.plugins = stack;
      SCOPED_TRACE(spec.model_kind + (stack.empty() ? "" : stack[0].name + stack[0].options.dump()));
      const auto expected = first_step(spec);
      spec.plugins.push_back(kFused);
      const auto got = first_step(spec);
      EXPECT_TRUE(at::equal(got.at("loss"), expected.at("loss")));
      ASSERT_EQ(got.size(), expected.size());
      for (const auto& [name, value] : got) EXPECT_LE(relative(value, expected.at(name)), 2e-6) << name;
    }
  RunSpec adapted = nano_spec({lora, kBf16, {"fused_kernels", Json::object()}});
  const auto expected = first_step(adapted);
  adapted.plugins.push_back(kFused);
  const auto got = first_step(adapted);
  EXPECT_TRUE(at::equal(got.at("loss"), expected.at("loss")));
  for (const auto& [name, value] : got) EXPECT_LE(relative(value, expected.at(name)), 3e-2) << name;
}

TEST(FusedProjections, MatricesAreRowsOfOneTensorButSeparateParameters) {
  Trained trained(nano_spec({kFused, {"fused_adamw", Json::object()}}));
  Trained plain(nano_spec({{"fused_adamw", Json::object()}}));
  auto& params = trained.session().params();
  const auto matrices = [&] {
    Tensors of_q_k_v;
    for (const char* name : {"q", "k", "v"})
      of_q_k_v.push_back(
          params.at(std::string("model.layers.1.self_attn.") + name + "_proj.weight").leaf.detach());
    return of_q_k_v;
  };
  EXPECT_TRUE(rows_of_one(matrices()).defined());
  EXPECT_TRUE(rows_of_one({params.at("model.layers.1.mlp.gate_proj.weight").leaf.detach(),
                           params.at("model.layers.1.mlp.up_proj.weight").leaf.detach()})
                  .defined());
  const auto names = [](Session& session) {
    std::vector<std::string> found;
    for (const Param* param : session.params().all()) found.push_back(param->name);
    return found;
  };
  EXPECT_EQ(names(trained.session()), names(plain.session()));
  for (const Param* param : params.all())
    EXPECT_TRUE(at::equal(param->leaf, plain.session().params().at(param->name).leaf)) << param->name;
  // The optimizer writes to the memory that the products read.
  const auto got = losses(trained.train()), expected = losses(plain.train());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6 * expected[i]) << i;
  EXPECT_TRUE(rows_of_one(matrices()).defined());
}

TEST(FusedProjections, AModelWithoutSharedInputsIsRefused) {
  RunSpec spec = nano_spec({kFused});
  spec.model_kind = "operator";
  spec.model = validate_model("operator", {{"op", "swiglu"}, {"dim", 24}, {"repeat", 2}}, "test");
  EXPECT_THROW(Trained{spec}, Error);
}
}  // namespace
}  // namespace optrush::testing

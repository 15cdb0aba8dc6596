// Mamba 2 with groups and a least time step, MLPs without a gate and blocks without an MLP, against the
// formulas with a loop over positions.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/batches.h"
#include "support/error_of.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
using ::testing::HasSubstr;

constexpr int64_t kMambaHeads = 4, kMambaGroups = 2, kMambaWidth = 6, kMambaState = 5,
                  kMambaInner = kMambaHeads * kMambaWidth;
constexpr double kLeastStep = 0.7;

RunSpec mamba_spec(int64_t groups = kMambaGroups) {
  RunSpec spec = nano_spec();
  spec.train.dtype = "fp64";
  spec.model.update({{"mamba",
                      {{"heads", kMambaHeads},
                       {"groups", groups},
                       {"head_dim", kMambaWidth},
                       {"state", kMambaState},
                       {"norm_by_group", true},
                       {"min_step", kLeastStep}}},
                     {"position", "none"},
                     {"activation", "relu2"},
                     {"layers_without_mlp", {0}},
                     {"init_std", 0.3}});
  return spec;
}

class MambaFormula {
 public:
  MambaFormula(Session& session, int64_t groups) : session_(session), groups_(groups) {}

  Tensor weight(const std::string& name) const { return session_.params().at(name).leaf.detach(); }

  Tensor norm(const Tensor& x, const std::string& name) const {
    return of_length(x) * weight(name + ".weight");
  }

  Tensor mlp(const Tensor& x, const std::string& path) const {
    const Tensor up = at::matmul(x, weight(path + ".up_proj.weight").t());
    return at::matmul(at::where(up > 0, up * up, at::zeros_like(up)), weight(path + ".down_proj.weight").t());
  }

  Tensor mamba(const Tensor& x, const std::string& path) const {
    const auto w = [&](const char* name) { return weight(path + name); };
    const int64_t states = groups_ * kMambaState, channels = kMambaInner + 2 * states, positions = x.size(1);
    const auto parts =
        at::matmul(x, w(".in_proj.weight").t()).split_with_sizes({kMambaInner, channels, kMambaHeads}, -1);
    const Tensor convolved =
        at::conv1d(parts[1].transpose(1, 2), w(".conv1d.weight"), w(".conv1d.bias"), 1, 3, 1, channels)
            .narrow(2, 0, positions)
            .transpose(1, 2);
    const auto mixed = at::silu(convolved).split_with_sizes({kMambaInner, states, states}, -1);
    const auto of_heads = [&](const Tensor& part) {
      return part.unflatten(-1, {groups_, kMambaState}).repeat_interleave(kMambaHeads / groups_, 2);
    };
    const Tensor v = mixed[0].unflatten(-1, {kMambaHeads, kMambaWidth}), b = of_heads(mixed[1]),
                 c = of_heads(mixed[2]);
    const Tensor time = at::softplus(parts[2] + w(".dt_bias")).clamp_min(kLeastStep);
    const Tensor a = -w(".A_log").exp().view({kMambaHeads, 1, 1}), skip = w(".D").view({kMambaHeads, 1});
    Tensor state = at::zeros({x.size(0), kMambaHeads, kMambaState, kMambaWidth}, x.options());
    Tensors out;
    for (int64_t t = 0; t < positions; ++t) {
      const Tensor step = time.select(1, t).unsqueeze(-1).unsqueeze(-1), value = v.select(1, t);
      state = state * (a * step).exp() + step * b.select(1, t).unsqueeze(-1) * value.unsqueeze(-2);
      out.push_back((state * c.select(1, t).unsqueeze(-1)).sum(2) + skip * value);
    }
    const Tensor gated = at::stack(out, 1).flatten(2) * at::silu(parts[0]);
    const Tensor normed = of_length(gated.unflatten(-1, {groups_, kMambaInner / groups_})).flatten(-2);
    return at::matmul(normed * w(".norm.weight"), w(".out_proj.weight").t());
  }

  Tensor loss(const Batch& batch, const LlamaSpec& model) const {
    const std::string embedding = "model.embed_tokens.weight";
    Tensor x = at::embedding(weight(embedding), batch.tokens);
    for (int64_t layer = 0; layer < model.n_layers; ++layer) {
      const std::string path = "model.layers." + std::to_string(layer);
      x = x + mamba(norm(x, path + ".input_layernorm"), path + ".mamba");
      if (layer != 0) x = x + mlp(norm(x, path + ".post_attention_layernorm"), path + ".mlp");
    }
    const Tensor head = weight(model.tie_embeddings ? embedding : "lm_head.weight");
    const Tensor logits = at::matmul(norm(x, "model.norm"), head.t());
    return at::cross_entropy_loss(logits.flatten(0, 1), batch.labels.flatten());
  }

 private:
  Tensor of_length(const Tensor& x) const {
    const double eps = llama_of(session_.spec()).norm_eps;
    return x / (x.square().mean(-1, /*keepdim=*/true) + eps).sqrt();
  }

  Session& session_;
  int64_t groups_;
};

TEST(NemotronH, MatchesTheFormulaOfItsParameters) {
  for (const int64_t groups : {1, 2, 4}) {
    const RunSpec spec = mamba_spec(groups);
    Trained trained(spec);
    Session& session = trained.session();
    const at::NoGradGuard no_grad;
    for (Param* param : session.params().all())  // ones would hide a mistake
      if (param->shape.size() == 1) param->leaf.add_(at::randn_like(param->leaf), 0.2);
    Batch batch = Batches(spec, session.model(), session.mesh(), at::kCPU).step(0).at(0);
    batch.token_count = static_cast<double>(batch.valid_tokens);
    const double expected = MambaFormula(session, groups).loss(batch, llama_of(spec)).item<double>();
    EXPECT_NEAR(session.forward(0, batch, {}).item<double>(), expected, 1e-11) << groups;
  }
}

TEST(NemotronH, BlocksWithoutAnMlpHaveOneNorm) {
  Trained trained(mamba_spec());
  const Params& params = trained.session().params();
  EXPECT_TRUE(params.contains("model.layers.1.mlp.up_proj.weight"));
  for (const char* absent :
       {"model.layers.0.mlp.up_proj.weight", "model.layers.0.post_attention_layernorm.weight",
        "model.layers.1.mlp.gate_proj.weight"})
    EXPECT_FALSE(params.contains(absent)) << absent;
}

TEST(NemotronH, ReplacedMlpsNeedAGate) {
  RunSpec spec = mamba_spec();
  spec.plugins.push_back({"swiglu_recompute"});
  EXPECT_THAT(error_of([&] { Trained{spec}; }),
              HasSubstr("the model needs 'ungated' of mlp; 'swiglu_recompute' does not offer it"));
}
}  // namespace
}  // namespace optrush::testing

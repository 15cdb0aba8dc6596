// The training loop that a user of LibTorch would write by hand for this one model: no host, no plugins, and
// only the clock inside the step. bench/compare.py and bench/host_overhead.py compare the host's plain step
// with it. It takes turns like a run of the host, if OPTRUSH_TURNS names a controller.
// usage: hand_written_loop FOLDER OUT [--keep-memory | --track-memory]
//   FOLDER is what `optrush-worker export` wrote; OUT takes the RunResult; --keep-memory gives malloc the
//   host's settings; --track-memory allocates tensors as the host does, which counts their bytes.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <limits>
#include <thread>

#include "base/files.h"
#include "io/safetensors.h"
#include "measure/memory.h"
#include "train/interleaving.h"

namespace {
using at::Tensor;
using optrush::Json;

struct Layer {
  Tensor attention_norm, q, k, v, o, mlp_norm, gate, up, down;
};

class Llama {
 public:
  Llama(const Json& config, const optrush::SafetensorsFile& file, int64_t length) : file_(file) {
    heads_ = config.at("num_attention_heads");
    groups_ = config.at("num_key_value_heads");
    width_ = config.at("head_dim");
    eps_ = config.at("rms_norm_eps");
    embedding_ = parameter("model.embed_tokens.weight");
    for (int64_t i = 0; i < config.at("num_hidden_layers").get<int64_t>(); ++i) {
      const std::string name = "model.layers." + std::to_string(i) + ".";
      layers_.push_back(
          {parameter(name + "input_layernorm.weight"), parameter(name + "self_attn.q_proj.weight"),
           parameter(name + "self_attn.k_proj.weight"), parameter(name + "self_attn.v_proj.weight"),
           parameter(name + "self_attn.o_proj.weight"), parameter(name + "post_attention_layernorm.weight"),
           parameter(name + "mlp.gate_proj.weight"), parameter(name + "mlp.up_proj.weight"),
           parameter(name + "mlp.down_proj.weight")});
    }
    final_norm_ = parameter("model.norm.weight");
    output_ = config.at("tie_word_embeddings") ? embedding_ : parameter("lm_head.weight");

    const Tensor exponents = at::arange(0, width_, 2, at::kDouble) / static_cast<double>(width_);
    const Tensor frequencies = at::pow(config.at("rope_theta").get<double>(), -exponents);
    const Tensor angles = at::outer(at::arange(length, at::kDouble), frequencies);
    cos_ = at::cat({angles, angles}, -1).cos().to(at::kFloat);
    sin_ = at::cat({angles, angles}, -1).sin().to(at::kFloat);
    future_ = at::full({length, length}, -std::numeric_limits<double>::infinity(), at::kFloat).triu(1);
  }

  const std::vector<Tensor>& parameters() const { return parameters_; }

  Tensor loss(const Tensor& tokens, const Tensor& labels) const {
    Tensor x = at::embedding(embedding_, tokens);
    for (const Layer& layer : layers_) {
      x = x + attention(layer, norm(x, layer.attention_norm));
      const Tensor y = norm(x, layer.mlp_norm);
      x = x + at::linear(at::silu(at::linear(y, layer.gate)) * at::linear(y, layer.up), layer.down);
    }
    const Tensor logits = at::linear(norm(x, final_norm_), output_);
    return at::cross_entropy_loss(logits.flatten(0, -2), labels.flatten(), {}, at::Reduction::Sum) /
           static_cast<double>(labels.numel());
  }

 private:
  Tensor parameter(const std::string& name) {
    parameters_.push_back(file_.read(name).requires_grad_());
    return parameters_.back();
  }

  Tensor norm(const Tensor& x, const Tensor& weight) const {
    return x * (x.pow(2).mean(-1, true) + eps_).rsqrt() * weight;
  }

  Tensor rotate(const Tensor& x) const {
    const auto halves = x.chunk(2, -1);
    return x * cos_ + at::cat({-halves[1], halves[0]}, -1) * sin_;
  }

  Tensor attention(const Layer& layer, const Tensor& x) const {
    const int64_t batch = x.size(0), length = x.size(1);
    const auto split = [&](const Tensor& y) { return y.unflatten(-1, {-1, width_}).transpose(1, 2); };
    const Tensor q = rotate(split(at::linear(x, layer.q))) * (1 / std::sqrt(static_cast<double>(width_)));
    const Tensor k = rotate(split(at::linear(x, layer.k))), v = split(at::linear(x, layer.v));
    const Tensor stacked = q.reshape({batch, groups_, heads_ / groups_ * length, width_});
    const Tensor scores =
        at::matmul(stacked, k.transpose(-2, -1)).view({batch, heads_, length, length}) + future_;
    const Tensor weights = at::softmax(scores, -1).view({batch, groups_, -1, length});
    const Tensor out = at::matmul(weights, v).view({batch, heads_, length, width_});
    return at::linear(out.transpose(1, 2).flatten(2), layer.o);
  }

  const optrush::SafetensorsFile& file_;
  int64_t heads_ = 0, groups_ = 0, width_ = 0;
  double eps_ = 0;
  Tensor embedding_, final_norm_, output_, cos_, sin_, future_;
  std::vector<Layer> layers_;
  std::vector<Tensor> parameters_;
};

class AdamW {
 public:
  AdamW(const std::vector<Tensor>& parameters, const Json& train) : parameters_(parameters) {
    if (train.value("lr_warmup", 0) != 0 || train.value("lr_decay", "none") != "none")
      throw std::runtime_error("the loop knows no learning rate that changes");
    lr_ = train.at("lr");
    beta1_ = train.at("beta1");
    beta2_ = train.at("beta2");
    eps_ = train.at("eps");
    weight_decay_ = train.at("weight_decay");
    for (const Tensor& parameter : parameters_) {
      first_.push_back(at::zeros_like(parameter));
      second_.push_back(at::zeros_like(parameter));
    }
  }

  void step() {
    const at::NoGradGuard no_grad;
    ++steps_;
    const double correction1 = 1 - std::pow(beta1_, steps_), correction2 = 1 - std::pow(beta2_, steps_);
    for (size_t i = 0; i < parameters_.size(); ++i) {
      Tensor& parameter = parameters_[i];
      if (parameter.dim() > 1) parameter.mul_(1 - lr_ * weight_decay_);
      first_[i].lerp_(parameter.grad(), 1 - beta1_);
      second_[i].mul_(beta2_).addcmul_(parameter.grad(), parameter.grad(), 1 - beta2_);
      const Tensor denominator = (second_[i].sqrt() / std::sqrt(correction2)).add_(eps_);
      parameter.addcdiv_(first_[i], denominator, -lr_ / correction1);
      parameter.mutable_grad().reset();
    }
  }

 private:
  std::vector<Tensor> parameters_, first_, second_;
  double lr_ = 0, beta1_ = 0, beta2_ = 0, eps_ = 0, weight_decay_ = 0;
  int steps_ = 0;
};

Json run(const Json& spec, const std::filesystem::path& folder) {
  const Json& train = spec.at("train");
  const int64_t warmup = train.at("warmup"), length = train.at("seq_len");
  const optrush::SafetensorsFile weights(folder / "model.safetensors");
  const Tensor tokens = optrush::SafetensorsFile(folder / "tokens.safetensors").read("tokens");
  const Llama model(optrush::read_json(folder / "config.json"), weights, length);
  AdamW optimizer(model.parameters(), train);
  Json steps = Json::array();
  std::vector<double> timed;
  const auto controller = optrush::Interleaving::from_environment({});
  optrush::InterleavedSteps turns(controller.get());
  const auto last = [&] { return steps.empty() ? 0 : steps.back().at("seconds").get<double>(); };
  for (int64_t i = 0; i < tokens.size(0); ++i) {
    if (i >= warmup && !turns.next(last)) break;
    const auto start = std::chrono::steady_clock::now();
    const Tensor samples = tokens[i];
    const Tensor loss =
        model.loss(samples.slice(1, 0, length).contiguous(), samples.slice(1, 1, length + 1).contiguous());
    loss.backward();
    optimizer.step();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (turns.timed()) timed.push_back(seconds);
    steps.push_back({{"step", i},
                     {"timed", turns.timed()},
                     {"loss", loss.item<double>()},
                     {"grad_norm", nullptr},
                     {"tokens", samples.size(0) * length},
                     {"seconds", seconds},
                     {"phases", Json::object()}});
  }
  std::sort(timed.begin(), timed.end());
  const double median = (timed[(timed.size() - 1) / 2] + timed[timed.size() / 2]) / 2;
  return {{"schema_version", 1},
          {"status", "ok"},
          {"reason", ""},
          {"steps", steps},
          {"tokens_per_second", steps[0]["tokens"].get<double>() / median},
          {"step_seconds", median}};
}
}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() < 2) {
    std::cerr << "usage: hand_written_loop FOLDER OUT [--keep-memory | --track-memory]\n";
    return 2;
  }
  if (arguments.size() > 2 && arguments[2] == "--keep-memory") {
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
    mallopt(M_TOP_PAD, 64 << 20);
  }
  if (arguments.size() > 2 && arguments[2] == "--track-memory") optrush::install_cpu_memory_tracking();
  const std::filesystem::path folder = arguments[0];
  const Json spec = optrush::read_json(folder / "spec.json");
  const int64_t threads = spec.at("threads").get<int64_t>();
  at::set_num_threads(static_cast<int>(threads > 0 ? threads : std::thread::hardware_concurrency()));
  optrush::write_json(arguments[1], run(spec, folder));
}
